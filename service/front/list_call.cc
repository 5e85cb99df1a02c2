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
  v1::ListOperationsRequest request;
  if (auto failure = Parse(in, &request)) {
    return FinishWith(desk()->Refused(Verb::kList, *std::move(failure)), request);
  }
  auto filter = desk()->AdmitList(CallerOf(*context()), request);
  if (auto* failure = std::get_if<Failure>(&filter)) return FinishWith(*failure, request);
  const Checked<size_t> page_size = CheckPageSize(request.page_size());
  if (!page_size.ok()) {
    return FinishWith(desk()->Refused(Verb::kList, service::ToFailure(page_size.error())), request);
  }
  filter_ = std::move(std::get<keystore::ListFilter>(filter));
  page_token_ = request.page_token();
  if (!worker->Run([this, size = page_size.value()] { AskForPage(size); })) {
    const Failure overloaded{core::Reason::kOverloaded, {}, {}, std::nullopt};
    FinishWith(desk()->Refused(Verb::kList, overloaded), request);
  }
}

void ListCall::AskForPage(size_t page_size) {
  if (context()->IsCancelled()) return FinishCancelled();
  desk()->store()->List(filter_, page_size, page_token_,
                        [this, page_size](absl::StatusOr<keystore::ListPage> page) {
                          OnPage(page_size, std::move(page));
                        });
}

void ListCall::OnPage(size_t page_size, absl::StatusOr<keystore::ListPage> page) {
  v1::ListOperationsResponse response;
  if (!page.ok()) {
    return FinishWith(desk()->Refused(Verb::kList, ToFailure(page.status())), response);
  }
  const std::shared_ptr<const core::Policy> policy = desk()->PolicyFor(filter_.scan.name_space);
  const core::Time now = desk()->Now();
  for (const keystore::ListEntry& entry : page->entries) {
    *response.add_operations() = ToListed(entry, *policy, now);
  }
  response.set_next_page_token(std::move(page->next_page_token));
  if (response.ByteSizeLong() > core::kMaxPageBytes && page_size > 1) {
    return AskForPage(page_size / 2);
  }
  FinishWith(std::nullopt, response);
}

}  // namespace idempotency::service
