// A gmock of Connection, for tests of code that calls the service:
//
//   auto connection = std::make_shared<NiceMock<idempotency::testing::MockConnection>>();
//   EXPECT_CALL(*connection, Reserve).WillOnce(Return(acquired));
//   idempotency::Client client(connection, std::make_shared<FakeEnvironment>());
#ifndef IDEMPOTENCY_TESTING_MOCK_CONNECTION_H_
#define IDEMPOTENCY_TESTING_MOCK_CONNECTION_H_

#include "gmock/gmock.h"
#include "idempotency/connection.h"

namespace idempotency::testing {

// Thread safety: as gmock's; expectations are set before the first call.
class MockConnection : public Connection {
 public:
  MOCK_METHOD(absl::StatusOr<ReserveResponse>, Reserve, (const ReserveRequest&, const CallOptions&),
              (override));
  MOCK_METHOD(absl::StatusOr<RenewResponse>, Renew, (const RenewRequest&, const CallOptions&),
              (override));
  MOCK_METHOD(absl::StatusOr<CompleteResponse>, Complete,
              (const CompleteRequest&, const CallOptions&), (override));
  MOCK_METHOD(absl::StatusOr<ReleaseResponse>, Release, (const ReleaseRequest&, const CallOptions&),
              (override));
  MOCK_METHOD(absl::StatusOr<MarkUnresolvedResponse>, MarkUnresolved,
              (const MarkUnresolvedRequest&, const CallOptions&), (override));
  MOCK_METHOD(absl::StatusOr<GetOperationResponse>, GetOperation,
              (const GetOperationRequest&, const CallOptions&), (override));
  MOCK_METHOD(absl::StatusOr<Operation>, Resolve, (const ResolveRequest&, const CallOptions&),
              (override));
  MOCK_METHOD(absl::StatusOr<ListOperationsResponse>, ListOperations,
              (const ListOperationsRequest&, const CallOptions&), (override));
  // `done` may be called at once or kept for later.
  MOCK_METHOD(void, AsyncRenew, (RenewRequest, CallOptions, RenewDone), (override));
};

}  // namespace idempotency::testing

#endif  // IDEMPOTENCY_TESTING_MOCK_CONNECTION_H_
