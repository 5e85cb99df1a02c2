#include "service/yaml_tree.h"

#include <map>
#include <sstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "yaml-cpp/eventhandler.h"
#include "yaml-cpp/exceptions.h"
#include "yaml-cpp/mark.h"
#include "yaml-cpp/parser.h"

namespace idempotency::service {
namespace {

int LineOf(const YAML::Mark& mark) { return mark.is_null() ? 0 : mark.line + 1; }

// Builds the tree from the parser's events. Past a bound it says so once and drops values.
class TreeBuilder final : public YAML::EventHandler {
 public:
  explicit TreeBuilder(ConfigProblems* problems) : problems_(problems) {}

  YamlNodePtr root() const { return root_; }

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    Finish(anchor, Node(YamlNode::Kind::kNothing, mark), LineOf(mark));
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    RefuseTag(mark, tag);
    std::shared_ptr<YamlNode> node = Node(YamlNode::Kind::kScalar, mark);
    node->text = value;
    node->quoted = tag == "!";  // the parser's mark for what is not plain
    Finish(anchor, std::move(node), LineOf(mark));
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const auto found = anchored_.find(anchor);
    if (found != anchored_.end()) return Finish(0, found->second, LineOf(mark));
    problems_->Add(LineOf(mark), "", "an alias stands within the value it names: write it out");
    Finish(0, Node(YamlNode::Kind::kNothing, mark), LineOf(mark));
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    Start(YamlNode::Kind::kList, mark, tag, anchor);
  }
  void OnSequenceEnd() override { End(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    Start(YamlNode::Kind::kMapping, mark, tag, anchor);
  }
  void OnMapEnd() override { End(); }

 private:
  struct Open {
    std::shared_ptr<YamlNode> node;
    YAML::anchor_t anchor = 0;
    bool has_key = false;  // kMapping: the next value is that of `key`
    std::string key = {};
    int key_line = 0;
  };

  static std::shared_ptr<YamlNode> Node(YamlNode::Kind kind, const YAML::Mark& mark) {
    auto node = std::make_shared<YamlNode>();
    node->kind = kind;
    node->line = LineOf(mark);
    return node;
  }

  void RefuseTag(const YAML::Mark& mark, const std::string& tag) {
    if (tag.empty() || tag == "?" || tag == "!") return;
    problems_->Add(LineOf(mark), "",
                   absl::StrCat("the tag ", Quoted(tag), " is not supported: remove it"));
  }

  void Start(YamlNode::Kind kind, const YAML::Mark& mark, const std::string& tag,
             YAML::anchor_t anchor) {
    RefuseTag(mark, tag);
    open_.push_back(Open{.node = Node(kind, mark), .anchor = anchor});
    if (open_.size() == kMaxYamlDepth + 1) {
      problems_->Add(LineOf(mark), "",
                     absl::StrCat("nested deeper than ", kMaxYamlDepth,
                                  " levels: ", "no field of this file is so deep, remove it"));
    }
  }

  void End() {
    Open done = std::move(open_.back());
    open_.pop_back();
    const int line = done.node->line;
    Finish(done.anchor, std::move(done.node), line);
  }

  // Puts a whole value where it belongs.
  void Finish(YAML::anchor_t anchor, YamlNodePtr node, int line) {
    if (++values_ == kMaxYamlValues + 1) {
      problems_->Add(line, "",
                     absl::StrCat("more than ", kMaxYamlValues, " values: shorten the file"));
    }
    if (anchor != 0) anchored_[anchor] = node;
    if (open_.empty()) {
      root_ = std::move(node);
      return;
    }
    Open& parent = open_.back();
    if (parent.node->kind == YamlNode::Kind::kMapping && !parent.has_key) {
      TakeKey(&parent, *node, line);
      return;
    }
    if (values_ <= kMaxYamlValues) {
      parent.node->children.push_back(
          {std::move(parent.key), parent.has_key ? parent.key_line : line, std::move(node)});
    }
    parent.has_key = false;
    parent.key.clear();
  }

  void TakeKey(Open* mapping, const YamlNode& key, int line) {
    if (key.kind != YamlNode::Kind::kScalar) {
      problems_->Add(line, "", "the key of a mapping is no text: write a field's name");
    }
    mapping->has_key = true;
    mapping->key = key.text;
    mapping->key_line = line;
  }

  ConfigProblems* problems_;
  YamlNodePtr root_;
  std::vector<Open> open_;
  std::map<YAML::anchor_t, YamlNodePtr> anchored_;
  size_t values_ = 0;
};

// Bytes that the parser takes for something else (it ends at 0x04) or passes on unchecked.
// Returns the length of the valid character at the front of `text`, or 0.
size_t CharacterBytes(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) {
    return first >= 0x20 || first == '\t' || first == '\n' || first == '\r' ? 1 : 0;
  }
  const size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || text.size() < length) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  // Longer than needed, a surrogate, or above the last code point.
  const unsigned char second = byte(1);
  if ((first == 0xE0 && second < 0xA0) || (first == 0xED && second > 0x9F) ||
      (first == 0xF0 && second < 0x90) || (first == 0xF4 && second > 0x8F)) {
    return 0;
  }
  return length;
}

// False, and a problem, where `text` holds anything but UTF-8 without control characters.
bool IsPlainText(std::string_view text, ConfigProblems* problems) {
  int line = 1;
  while (!text.empty()) {
    const size_t length = CharacterBytes(text);
    if (length == 0) {
      problems->Add(line, "", "not UTF-8 text, or a control character: save the file as UTF-8");
      return false;
    }
    if (text.front() == '\n') ++line;
    text.remove_prefix(length);
  }
  return true;
}

}  // namespace

YamlNodePtr ParseYaml(std::string_view text, ConfigProblems* problems) {
  if (!IsPlainText(text, problems)) return nullptr;
  TreeBuilder builder(problems);
  try {
    std::istringstream stream{std::string(text)};
    YAML::Parser parser(stream);
    if (!parser.HandleNextDocument(builder)) return nullptr;
    const YamlNodePtr root = builder.root();
    ConfigProblems ignored;
    TreeBuilder second(&ignored);
    if (parser.HandleNextDocument(second)) {
      const int line = second.root() == nullptr ? 0 : second.root()->line;
      problems->Add(line, "", "a second document begins here: put everything into one");
    }
    return root;
  } catch (const YAML::Exception& error) {
    problems->Add(LineOf(error.mark), "",
                  absl::StrCat("not readable as YAML (", error.msg, "): mend the syntax here"));
    return nullptr;
  }
}

}  // namespace idempotency::service
