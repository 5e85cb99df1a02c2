#include "tests/keystore/shell/shell_fixture.h"

#include "keystore/core/names.h"

namespace idempotency::keystore {
namespace {

std::shared_ptr<const core::Policy> DefaultPolicy() {
  static const auto kPolicy = std::make_shared<const core::Policy>();
  return kPolicy;
}

Request Make(std::string_view key, core::Command command, core::Duration wait = 0ms) {
  return Request{KeyOf(key), std::move(command), DefaultPolicy(), wait};
}

std::string WithNumber(std::string_view word, uint64_t number) {
  return std::string(word) + " " + std::to_string(number);
}

std::string WithState(std::string_view word, core::State state) {
  return std::string(word) + " " + std::string(core::Name(state));
}

struct InWords {
  std::string operator()(const core::Refusal& a) const { return std::string(core::Name(a.reason)); }
  std::string operator()(const core::ReserveAnswer& a) const {
    const std::string_view outcome = core::Name(a.outcome);
    return a.lease.has_value() ? WithNumber(outcome, a.lease->token) : std::string(outcome);
  }
  std::string operator()(const core::RenewAnswer& a) const {
    return WithNumber("RENEWED", a.lease.token);
  }
  std::string operator()(const core::CompleteAnswer& a) const {
    return a.already_complete ? "COMPLETE ALREADY" : "COMPLETE";
  }
  std::string operator()(const core::ReleaseAnswer& a) const {
    return WithState("RELEASED", a.state);
  }
  std::string operator()(const core::MarkUnresolvedAnswer& a) const {
    return WithState("MARKED", a.operation->state);
  }
  std::string operator()(const core::GetAnswer& a) const {
    return WithState("GOT", a.operation->state);
  }
  std::string operator()(const core::InspectAnswer& a) const {
    return WithState("INSPECTED", a.operation->state);
  }
  std::string operator()(const core::ResolveAnswer& a) const {
    return WithState("RESOLVED", a.operation->state);
  }
  std::string operator()(const core::DeleteAnswer&) const { return "DELETED"; }
  std::string operator()(const core::ReclaimAnswer&) const { return "RECLAIMED"; }
};

}  // namespace

core::Key KeyOf(std::string_view key) { return core::Key{"pay", "eu", std::string(key)}; }

Request Reserve(std::string_view key, uint64_t attempt_id, core::Duration wait) {
  return Make(key,
              core::ReserveCommand{.fingerprint = {"sha256", "0123456789abcdef"},
                                   .attempt_id = {attempt_id, attempt_id},
                                   .lease = kLease,
                                   .owner = {.worker = "w" + std::to_string(attempt_id)}},
              wait);
}

Request ReserveDispatchLater(std::string_view key, uint64_t attempt_id, core::Duration wait) {
  Request request = Reserve(key, attempt_id, wait);
  std::get<core::ReserveCommand>(request.command).dispatch_later = true;
  return request;
}

Request Renew(std::string_view key, uint64_t token, core::Duration lease) {
  return Make(key, core::RenewCommand{.token = token, .lease = lease});
}

Request Complete(std::string_view key, uint64_t token) {
  return Make(
      key, core::CompleteCommand{
               .token = token, .response = {.bytes = core::Blob("done")}, .content = {1, token}});
}

Request Release(std::string_view key, uint64_t token) {
  return Make(key, core::ReleaseCommand{.token = token, .content = {2, token}});
}

Request Mark(std::string_view key, uint64_t token) {
  return Make(key,
              core::MarkUnresolvedCommand{
                  .token = token, .cause = core::UnresolvedCause::kTimeout, .content = {3, token}});
}

Request Get(std::string_view key, core::Duration wait) {
  return Make(key, core::GetCommand{}, wait);
}

Request Inspect(std::string_view key) { return Make(key, core::InspectCommand{}); }

Request Resolve(std::string_view key, core::Resolution resolution) {
  return Make(key, core::ResolveCommand{.resolution = resolution,
                                        .actor = "op",
                                        .reason = "seen at the provider",
                                        .content = {4, static_cast<uint64_t>(resolution)}});
}

Request Delete(std::string_view key, bool force) {
  return Make(key, core::DeleteCommand{.force = force, .actor = "op", .reason = "asked to"});
}

Request Rerun(Request request, core::Duration retention) {
  core::Policy policy = *request.policy;
  policy.terms.unknown_outcome = core::UnknownOutcome::kRerun;
  policy.terms.retention = retention;
  request.policy = std::make_shared<const core::Policy>(policy);
  return request;
}

Request ZeroRetention(Request request) {
  core::Policy policy = *request.policy;
  policy.terms.retention = 0ms;
  request.policy = std::make_shared<const core::Policy>(policy);
  return request;
}

std::string Words(const Reply& reply) {
  return reply.cancelled ? "CANCELLED" : std::visit(InWords{}, reply.answer);
}

void RecordingObserver::OnAnswer(const Request& request, const core::Answer& answer) {
  answers.push_back(request.key.key + ": " + std::visit(InWords{}, answer));
}

void RecordingObserver::OnLapse(const core::Key& key, const core::Record& record) {
  lapses.push_back(key.key + ": " + std::string(core::Name(record.state)));
}

ShellTest::ShellTest(Traits traits, KeyStoreOptions options) : engine(traits) {
  Restart(std::move(options));
}

ShellTest::~ShellTest() {
  engine.HoldNoMore();
  engine.ReleaseAll();
  store.reset();
  for (const Call& call : calls_) {
    EXPECT_EQ(call.answers, 1) << "every call is answered exactly once: " << call.said;
  }
}

void ShellTest::Restart(KeyStoreOptions options) {
  store.reset();
  store = std::make_unique<KeyStore>(&engine, &clock, &observer, std::move(options));
}

ReplyCallback ShellTest::Record(Call* call) {
  return [call](Reply reply) {
    ++call->answers;
    call->said = Words(reply);
    call->reply = std::move(reply);
  };
}

Call* ShellTest::Send(Request request) {
  Call* const call = &calls_.emplace_back();
  call->handle = store->Submit(std::move(request), Record(call));
  return call;
}

std::vector<Call*> ShellTest::SendAll(std::vector<Request> requests) {
  std::vector<Call*> calls;
  std::vector<std::pair<Request, ReplyCallback>> all;
  for (Request& request : requests) {
    calls.push_back(&calls_.emplace_back());
    all.emplace_back(std::move(request), Record(calls.back()));
  }
  const std::vector<CancelHandle> handles = store->SubmitAll(std::move(all));
  for (size_t i = 0; i < calls.size(); ++i) calls[i]->handle = handles[i];
  return calls;
}

void ShellTest::Pass(core::Duration span) {
  clock.Advance(span);
  RunTimers();
}

void ShellTest::RunTimers() { store->RunTimers(); }

core::Duration ShellTest::UntilTimer() const {
  const std::optional<core::Time> next = store->NextTimer();
  return next.has_value() ? *next - clock.Read().latest : -1ms;
}

std::string ShellTest::StoredAs(std::string_view key) const {
  const core::Stored stored = engine.At(KeyOf(key));
  if (const auto* record = std::get_if<core::Record>(&stored)) {
    return std::string(core::Name(record->state));
  }
  return std::holds_alternative<core::Absent>(stored) ? "ABSENT" : "UNREADABLE";
}

std::vector<std::string> Said(const std::vector<Call*>& calls) {
  std::vector<std::string> said;
  for (const Call* call : calls) said.push_back(call->said);
  return said;
}

}  // namespace idempotency::keystore
