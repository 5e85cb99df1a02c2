// All that is wrong with one configuration file, so that it is told at once.
//
// Each problem is a line `file:line: path: sentence`, where the path is that of the field
// (`namespaces[2].max_attempts`, counted from 0) and the sentence ends with the next step.
// Not thread-safe; a plain value.
#ifndef IDEMPOTENCY_SERVICE_CONFIG_PROBLEMS_H_
#define IDEMPOTENCY_SERVICE_CONFIG_PROBLEMS_H_

#include <cstddef>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace idempotency::service {

class ConfigProblems {
 public:
  // How many are told; of more than that only the number.
  static constexpr size_t kMaxTold = 100;

  // line: from 1; 0 where the file as a whole is meant. path: may be empty, as may be both.
  void Add(int line, std::string_view path, std::string sentence);

  bool empty() const { return count_ == 0; }

  // Whether something is wrong with this very field, so that no rule need be asked about it.
  bool Has(std::string_view path) const { return paths_.find(path) != paths_.end(); }

  // By line, then in the order found; no newline at the end.
  std::string Tell(std::string_view file_name) const;

 private:
  struct Problem {
    int line;
    std::string text;  // path and sentence
  };
  std::vector<Problem> problems_;  // the first kMaxTold
  size_t count_ = 0;
  std::set<std::string, std::less<>> paths_;
};

// `text` in single quotes, printable and not too long.
std::string Quoted(std::string_view text);

}  // namespace idempotency::service

#endif  // IDEMPOTENCY_SERVICE_CONFIG_PROBLEMS_H_
