// For tests of what an engine's check makes of what it has seen: facts that are well, and changes
// of them, each of which is to change one finding and no other.
#ifndef IDEMPOTENCY_TESTS_KEYSTORE_ENGINE_FINDINGS_H_
#define IDEMPOTENCY_TESTS_KEYSTORE_ENGINE_FINDINGS_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <iterator>
#include <set>
#include <string>
#include <vector>

#include "keystore/engine/engine_check.h"

namespace idempotency::keystore {

// One that says that there is none where there is none.
inline Finding FindingOf(const std::vector<Finding>& findings, const std::string& id) {
  const auto found = std::find_if(findings.begin(), findings.end(),
                                  [&id](const Finding& finding) { return finding.id == id; });
  EXPECT_NE(found, findings.end()) << id;
  return found == findings.end() ? Finding{.id = "none"} : *found;
}

// The ids of all that are so.
inline std::set<std::string> IdsOf(const std::vector<Finding>& findings, Severity severity) {
  std::set<std::string> ids;
  for (const Finding& finding : findings) {
    if (finding.severity == severity) ids.insert(finding.id);
  }
  return ids;
}

// deploy/README.md names each of these checks, and no other whose name begins as theirs do.
inline void ExpectDocumented(const std::vector<Finding>& findings) {
  std::set<std::string> ids;
  for (const Finding& finding : findings) ids.insert(finding.id);
  ASSERT_FALSE(ids.empty());
  const std::string prefix = ids.begin()->substr(0, ids.begin()->find('.') + 1);
  const char* const source = std::getenv("IDEMPOTENCY_SOURCE_DIR");
  ASSERT_NE(source, nullptr);
  std::ifstream readme(std::string(source).append("/").append("deploy/README.md"));
  const std::string text{std::istreambuf_iterator<char>(readme), {}};
  std::set<std::string> named;
  for (size_t at = 0; (at = text.find("`" + prefix, at)) != std::string::npos;) {
    const size_t end = text.find('`', ++at);
    named.insert(text.substr(at, end - at));
  }
  EXPECT_EQ(named, ids);
}

// A change of the facts, the one finding that it changes, and what that becomes.
template <typename Facts>
struct FactsRow {
  const char* name;
  std::function<void(Facts&)> change;
  std::string id;
  Severity severity;
  // Other findings that cannot be as they were.
  std::set<std::string> also = {};
};

template <typename Facts>
void ExpectRows(const std::function<Facts()>& good, const std::vector<FactsRow<Facts>>& rows) {
  const std::vector<Finding> before = Judge(good());
  std::set<std::string> changed;
  for (const FactsRow<Facts>& row : rows) {
    SCOPED_TRACE(row.name);
    Facts facts = good();
    row.change(facts);
    const std::vector<Finding> after = Judge(facts);
    ASSERT_EQ(after.size(), before.size());
    changed.insert(row.id);
    for (size_t i = 0; i < after.size(); ++i) {
      EXPECT_EQ(after[i].id, before[i].id);
      EXPECT_EQ(after[i].why, before[i].why);
      // Whatever is not well says what to do.
      EXPECT_EQ(after[i].next_step.empty(), after[i].severity == Severity::kOk) << after[i].id;
      if (after[i].id == row.id) {
        EXPECT_EQ(after[i].severity, row.severity) << after[i].seen;
      } else if (row.also.count(after[i].id) == 0) {
        EXPECT_EQ(after[i], before[i]) << after[i].id << ": " << after[i].seen;
      }
    }
  }
  // Every check has a row that it does not pass.
  for (const Finding& finding : before) EXPECT_EQ(changed.count(finding.id), 1u) << finding.id;
}

}  // namespace idempotency::keystore

#endif  // IDEMPOTENCY_TESTS_KEYSTORE_ENGINE_FINDINGS_H_
