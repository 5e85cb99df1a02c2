// YAML text as a plain tree of values with line numbers: what config_yaml reads.
//
// Only what a configuration file needs: one document of mappings, lists and single values.
// Tags are refused. An anchored value may be used again with an alias; it is shared, not
// copied, so that a few bytes cannot grow into a large tree; whoever walks it must bound the
// walk all the same. Merge keys (`<<`) are keys like any other.
#ifndef IDEMPOTENCY_SERVICE_YAML_TREE_H_
#define IDEMPOTENCY_SERVICE_YAML_TREE_H_

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "service/config_problems.h"

namespace idempotency::service {

inline constexpr size_t kMaxYamlDepth = 32;
inline constexpr size_t kMaxYamlValues = 100'000;

struct YamlNode;
using YamlNodePtr = std::shared_ptr<const YamlNode>;

struct YamlNode {
  enum class Kind { kNothing, kScalar, kList, kMapping };
  struct Child {
    std::string key;  // of a mapping, as it was written, repeats included; else empty
    int line = 0;     // of the key, or of the item
    YamlNodePtr value;
  };

  Kind kind = Kind::kNothing;
  int line = 0;
  std::string text;     // kScalar
  bool quoted = false;  // kScalar: in quotes, or as a block
  std::vector<Child> children;
};

// The document in `text`; null where there is none (nothing but comments) or where it cannot
// be read, which `problems` then says. Never throws.
YamlNodePtr ParseYaml(std::string_view text, ConfigProblems* problems);

}  // namespace idempotency::service

#endif  // IDEMPOTENCY_SERVICE_YAML_TREE_H_
