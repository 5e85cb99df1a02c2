// The words are those of the API, by number and by name.
#include "idempotency/types.h"

#include <string>

#include "gtest/gtest.h"
#include "idempotency/v1/idempotency_service.pb.h"
#include "idempotency/v1/operation.pb.h"

namespace idempotency {
namespace {

// Every value of the API's enum, under the name it has there without the prefix, and no others.
template <typename Ours>
void ExpectNames(const google::protobuf::EnumDescriptor* api, const std::string& prefix) {
  for (int i = 0; i < api->value_count(); ++i) {
    const google::protobuf::EnumValueDescriptor* value = api->value(i);
    EXPECT_EQ(prefix + std::string(Name(static_cast<Ours>(value->number()))), value->name());
  }
  EXPECT_EQ(Name(static_cast<Ours>(api->value_count())), "UNKNOWN") << api->name();
  EXPECT_EQ(Name(static_cast<Ours>(255)), "UNKNOWN") << api->name();
}

TEST(TypesTest, NamesAndNumbersAreThoseOfTheApi) {
  ExpectNames<OperationState>(v1::OperationState_descriptor(), "OPERATION_STATE_");
  ExpectNames<Verdict>(v1::Verdict_descriptor(), "VERDICT_");
  ExpectNames<UnresolvedCause>(v1::UnresolvedCause_descriptor(), "UNRESOLVED_CAUSE_");
  ExpectNames<ReserveOutcome>(v1::ReserveOutcome_descriptor(), "RESERVE_OUTCOME_");
  ExpectNames<NextStep>(v1::NextStep_descriptor(), "NEXT_STEP_");
  ExpectNames<ErrorReason>(v1::ErrorReason_descriptor(), "ERROR_REASON_");
}

TEST(TypesTest, AbsentIsNotEmpty) {
  CachedResponse empty;
  empty.body = "";
  EXPECT_NE(empty, CachedResponse{});
}

}  // namespace
}  // namespace idempotency
