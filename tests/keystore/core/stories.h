// Tests whose body is a short scenario: one row of a table, with its name.
#ifndef IDEMPOTENCY_TESTS_KEYSTORE_CORE_STORIES_H_
#define IDEMPOTENCY_TESTS_KEYSTORE_CORE_STORIES_H_

#include <gtest/gtest.h>

#include <ostream>
#include <string>

#include "tests/keystore/core/scenario.h"

namespace idempotency::core {

struct Story {
  std::string name;
  std::string text;

  friend void PrintTo(const Story& story, std::ostream* out) { *out << story.text; }
};

class StoryTest : public testing::TestWithParam<Story> {
 protected:
  void PlaysAsItSays() const { EXPECT_EQ(Play(GetParam().text), "") << GetParam().text; }
};

inline std::string NameOf(const testing::TestParamInfo<Story>& story) { return story.param.name; }

}  // namespace idempotency::core

#endif  // IDEMPOTENCY_TESTS_KEYSTORE_CORE_STORIES_H_
