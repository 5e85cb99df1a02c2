// Adds problems with one message of a configuration file, each with its line.
#ifndef IDEMPOTENCY_SERVICE_CONFIG_SECTION_H_
#define IDEMPOTENCY_SERVICE_CONFIG_SECTION_H_

#include <cstddef>
#include <string>
#include <string_view>

#include "service/config_problems.h"
#include "service/config_yaml.h"

namespace idempotency::service {

inline constexpr size_t kMaxPathBytes = 4095;

// Not thread-safe.
class Section {
 public:
  // `path`: of the message, as `identity.jwt_issuers[1]`. Both must outlive it.
  Section(std::string path, const FieldLines& lines, ConfigProblems* problems);

  void Add(std::string_view field, std::string sentence);
  // Whether something was found to be wrong with this very field.
  bool Has(std::string_view field) const { return problems_->Has(Path(field)); }

  // Takes a text that has to be there and to be of a certain length.
  std::string Required(std::string_view field, bool is_set, const std::string& text,
                       size_t max_bytes, std::string_view next_step);

  // As above, of a file that need not be named.
  std::string OptionalFile(std::string_view field, bool is_set, const std::string& text);

  std::string Path(std::string_view field) const;

 private:
  const std::string path_;
  const FieldLines& lines_;
  ConfigProblems* const problems_;
};

}  // namespace idempotency::service

#endif  // IDEMPOTENCY_SERVICE_CONFIG_SECTION_H_
