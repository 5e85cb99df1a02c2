// The gmock of Connection, in a program that has no test framework of its own.
#include <cstdio>
#include <memory>

#include "gmock/gmock.h"
#include "idempotency/client.h"
#include "idempotency/testing/fake_environment.h"
#include "idempotency/testing/mock_connection.h"

int main(int argc, char** argv) {
  testing::InitGoogleMock(&argc, argv);
  const auto connection =
      std::make_shared<testing::StrictMock<idempotency::testing::MockConnection>>();
  EXPECT_CALL(*connection, Reserve)
      .WillOnce(testing::Return(
          absl::StatusOr<idempotency::ReserveResponse>(absl::PermissionDeniedError("not you"))));
  const idempotency::Client client(connection,
                                   std::make_shared<idempotency::testing::FakeEnvironment>());
  const idempotency::RunResult result =
      client.Run({.id = {"payments", "acct", "order-1"}},
                 [](idempotency::Attempt&) { return idempotency::EffectResult(); });
  std::puts(idempotency::Name(result.stop).data());
  return result.stop == idempotency::StopReason::kRefused ? 0 : 1;
}
