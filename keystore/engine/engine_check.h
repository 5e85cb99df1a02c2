// What an engine finds when it is asked to look at the system that it keeps the store in: whether
// that keeps the promises that the service makes to its callers.
//
// What was seen and what follows from it are apart: an engine gathers facts, and a pure function
// (rocksdb_check.h, etcd/etcd_check.h, postgres/postgres_check.h) makes findings of them. What is
// not known is never reported as good.
//
// Thread safety: plain values.
#ifndef IDEMPOTENCY_KEYSTORE_ENGINE_ENGINE_CHECK_H_
#define IDEMPOTENCY_KEYSTORE_ENGINE_ENGINE_CHECK_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace idempotency::keystore {

// From the best to the worst.
enum class Severity : uint8_t {
  kOk,
  // Nobody knows: what would tell could not be asked, or does not tell.
  kNotChecked,
  // Every promise is kept, and by less than it could be.
  kWarning,
  // Something that callers are promised does not hold, or will not after an ordinary failure.
  kGuaranteeFails,
};

struct Finding {
  // "etcd.version": names the check, for scripts; it never changes its meaning.
  std::string id;
  Severity severity = Severity::kNotChecked;
  // In words, without names of keys or secrets.
  std::string seen;
  // Why anybody should care; the same whatever was seen.
  std::string why;
  // What to do about it; empty where all is well.
  std::string next_step;

  friend bool operator==(const Finding&, const Finding&) = default;
};

struct EngineCheck {
  // As --engine names it, and the version of what the store is kept in; empty: not known.
  std::string engine;
  std::string version;
  // One for each check, in the order in which they were made.
  std::vector<Finding> findings;
};

// One thing that is looked at: what is the same of all its findings. Refers to its arguments.
class NamedCheck {
 public:
  constexpr NamedCheck(std::string_view id, std::string_view why) : id_(id), why_(why) {}

  Finding Ok(std::string seen) const { return Make(Severity::kOk, std::move(seen), {}); }
  Finding NotChecked(std::string seen, std::string next_step) const {
    return Make(Severity::kNotChecked, std::move(seen), std::move(next_step));
  }
  Finding Warning(std::string seen, std::string next_step) const {
    return Make(Severity::kWarning, std::move(seen), std::move(next_step));
  }
  Finding Fails(std::string seen, std::string next_step) const {
    return Make(Severity::kGuaranteeFails, std::move(seen), std::move(next_step));
  }

 private:
  Finding Make(Severity severity, std::string seen, std::string next_step) const {
    return {std::string(id_), severity, std::move(seen), std::string(why_), std::move(next_step)};
  }

  const std::string_view id_;
  const std::string_view why_;
};

}  // namespace idempotency::keystore

#endif  // IDEMPOTENCY_KEYSTORE_ENGINE_ENGINE_CHECK_H_
