#include "service/front/list_call.h"

#include <memory>
#include <optional>
#include <utility>
#include <variant>

#include "keystore/core/limits.h"

namespace idempotency::service {
namespace {

Failure ToFailure(const absl::Status& status) {
  if (absl::IsInvalidArgument(status)) {
    return Failure{core::Reason::kInvalidField, "page_token",
                   "page_token does not belong to this filter; start without one.", std::nullopt};
  }
  return Failure{core::Reason::kStoreUnavailable, {}, {}, std::nullopt};
}

}  // namespace

ListCall::ListCall(const FrontDesk* desk, Worker* worker, grpc::CallbackServerContext* context,
                   const grpc::ByteBuffer& in, grpc::ByteBuffer* out)
    : UnaryReactor(desk, context, out) {
  Start(worker, in);
}

void ListCall::Start(Worker* worker, const grpc::ByteBuffer& in) {
  if (auto failure = IdentifyCaller(*context(), *desk(), Verb::kList, &caller_)) {
    return FinishWith(*failure);
  }
  v1::ListOperationsRequest request;
  if (auto failure = Parse(in, &request)) {
    return FinishWith(desk()->Refused(caller_, Verb::kList, *std::move(failure)));
  }
  auto filter = desk()->AdmitList(caller_, request);
  if (auto* failure = std::get_if<Failure>(&filter)) return FinishWith(*failure);
  const Checked<size_t> page_size = CheckPageSize(request.page_size());
  if (!page_size.ok()) {
    return FinishWith(desk()->Refused(caller_, Verb::kList, service::ToFailure(page_size.error())));
  }
  filter_ = std::move(std::get<keystore::ListFilter>(filter));
  page_token_ = request.page_token();
  Begin(worker, page_size.value());
}

void ListCall::Begin(Worker* worker, size_t page_size) {
  const std::string peer = context()->peer();
  AuditEntry entry;
  entry.peer = peer;
  entry.name_space = filter_.scan.name_space;
  if (filter_.scan.scope) entry.scope = *filter_.scan.scope;
  desk()->BeginAct(caller_, Verb::kList, entry, [this, worker, page_size](FrontDesk::Begun begun) {
    if (begun.failure) return FinishWith(*begun.failure);
    act_ = std::move(begun.act);
    if (worker->Run([this, page_size] { AskForPage(page_size); })) return;
    const Failure overloaded{core::Reason::kOverloaded, {}, {}, std::nullopt};
    EndWith(desk()->Refused(caller_, Verb::kList, overloaded));
  });
}

void ListCall::EndWith(const Failure& failure) {
  desk()->EndAct(act_, ReasonName(failure.reason));
  FinishWith(failure);
}

void ListCall::AskForPage(size_t page_size) {
  if (context()->IsCancelled()) {
    desk()->EndAct(act_, "CANCELLED");
    return FinishCancelled();
  }
  desk()->store()->List(filter_, page_size, page_token_,
                        [this, page_size](absl::StatusOr<keystore::ListPage> page) {
                          OnPage(page_size, std::move(page));
                        });
}

void ListCall::OnPage(size_t page_size, absl::StatusOr<keystore::ListPage> page) {
  if (!page.ok()) return EndWith(desk()->Refused(caller_, Verb::kList, ToFailure(page.status())));
  v1::ListOperationsResponse response;
  const std::shared_ptr<const core::Policy> policy = desk()->PolicyFor(filter_.scan.name_space);
  const core::Time now = desk()->Now();
  for (const keystore::ListEntry& entry : page->entries) {
    *response.add_operations() = ToListed(entry, *policy, now);
  }
  response.set_next_page_token(std::move(page->next_page_token));
  if (response.ByteSizeLong() > core::kMaxPageBytes && page_size > 1) {
    return AskForPage(page_size / 2);
  }
  desk()->EndAct(act_);
  desk()->NoteAnswered(Verb::kList, began_, filter_.scan.name_space);
  FinishWith(response);
}

}  // namespace idempotency::service
