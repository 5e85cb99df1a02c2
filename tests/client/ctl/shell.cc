#include "tests/client/ctl/shell.h"

#include <gtest/gtest.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <fstream>
#include <sstream>

namespace idempotency::ctl {

std::vector<std::string> WordsOf(const std::string& command_line) {
  // A function stands in for the tool and prints each word with a NUL after it.
  std::string script_path = testing::TempDir() + "/ctl_words_XXXXXX";
  const int fd = mkstemp(script_path.data());
  EXPECT_GE(fd, 0);
  close(fd);
  std::ofstream(script_path) << "idempotencyctl() { [ $# -eq 0 ] || printf '%s\\0' \"$@\"; }\n"
                             << command_line << "\n";
  FILE* bash = popen(("exec bash '" + script_path + "'").c_str(), "r");
  EXPECT_NE(bash, nullptr);
  std::string output;
  for (int c = fgetc(bash); c != EOF; c = fgetc(bash)) output += static_cast<char>(c);
  EXPECT_EQ(pclose(bash), 0) << command_line;
  unlink(script_path.c_str());
  std::vector<std::string> words;
  std::istringstream stream(output);
  for (std::string word; std::getline(stream, word, '\0');) words.push_back(word);
  return words;
}

}  // namespace idempotency::ctl
