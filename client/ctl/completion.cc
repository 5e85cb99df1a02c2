#include "client/ctl/completion.h"

#include <CLI/CLI.hpp>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace idempotency::ctl {
namespace {

// The words that may follow a command, by the command's own words with spaces between.
using Words = std::vector<std::pair<std::string, std::vector<std::string>>>;

std::vector<std::string> OptionsOf(const CLI::App& app) {
  std::vector<std::string> words;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) words.push_back("--" + name);
  }
  return words;
}

void Collect(const CLI::App& app, const std::string& path, const std::vector<std::string>& globals,
             Words* all) {
  std::vector<std::string> words;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    words.push_back(command->get_name());
    Collect(*command, path.empty() ? command->get_name() : path + " " + command->get_name(),
            globals, all);
  }
  for (std::string& option : OptionsOf(app)) words.push_back(std::move(option));
  if (!path.empty()) words.insert(words.end(), globals.begin(), globals.end());
  all->emplace_back(path, std::move(words));
}

Words WordsOf(const CLI::App& app) {
  Words all;
  Collect(app, "", OptionsOf(app), &all);
  return all;
}

// Names of commands are letters and hyphens only: nothing has to be quoted.
std::string BashScript(const Words& all) {
  std::string text =
      "# Completion of idempotencyctl for bash: source <(idempotencyctl completion bash)\n"
      "_idempotencyctl() {\n"
      "  local path='' words='' word\n"
      "  for word in \"${COMP_WORDS[@]:1:COMP_CWORD-1}\"; do\n"
      "    case \"$path${path:+ }$word\" in\n";
  for (const auto& [path, words] : all) {
    if (!path.empty()) absl::StrAppend(&text, "      '", path, "') path='", path, "' ;;\n");
  }
  absl::StrAppend(&text, "    esac\n  done\n  case \"$path\" in\n");
  for (const auto& [path, words] : all) {
    absl::StrAppend(&text, "    '", path, "') words='", absl::StrJoin(words, " "), "' ;;\n");
  }
  absl::StrAppend(&text,
                  "  esac\n"
                  "  COMPREPLY=($(compgen -W \"$words\" -- \"${COMP_WORDS[COMP_CWORD]}\"))\n"
                  "}\n"
                  "complete -o default -F _idempotencyctl idempotencyctl\n");
  return text;
}

std::string ZshScript(const Words& all) {
  return absl::StrCat(
      "# Completion of idempotencyctl for zsh: source <(idempotencyctl completion zsh)\n"
      "autoload -U +X bashcompinit && bashcompinit\n",
      BashScript(all));
}

std::string FishScript(const Words& all) {
  std::string text =
      "# Completion of idempotencyctl for fish: idempotencyctl completion fish | source\n"
      "function __idempotencyctl_path\n"
      "  set -l path ''\n"
      "  for word in (commandline -opc)[2..-1]\n"
      "    switch (string trim \"$path $word\")\n";
  for (const auto& [path, words] : all) {
    if (!path.empty()) {
      absl::StrAppend(&text, "      case '", path, "'\n        set path '", path, "'\n");
    }
  }
  absl::StrAppend(&text, "    end\n  end\n  echo \"$path\"\nend\n");
  for (const auto& [path, words] : all) {
    absl::StrAppend(&text, "complete -c idempotencyctl -n 'test \"$(__idempotencyctl_path)\" = \"",
                    path, "\"' -a '", absl::StrJoin(words, " "), "'\n");
  }
  return text;
}

}  // namespace

std::string CompletionScript(const CLI::App& app, std::string_view shell) {
  const Words all = WordsOf(app);
  if (shell == "bash") return BashScript(all);
  if (shell == "zsh") return ZshScript(all);
  if (shell == "fish") return FishScript(all);
  return {};
}

}  // namespace idempotency::ctl
