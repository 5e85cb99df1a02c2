#include "tests/proof/network/clients.h"

#include <deque>
#include <map>
#include <optional>
#include <thread>
#include <utility>
#include <variant>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "grpc/support/time.h"
#include "idempotency/v1/admin_service.grpc.pb.h"
#include "idempotency/v1/idempotency_service.grpc.pb.h"
#include "tests/proof/network/spaces.h"

namespace idempotency::proof::network {
namespace {

// Longer than an answer takes on a busy machine, and shorter than a black hole lasts.
constexpr int kCallMs = 250;
constexpr int kLookMs = 5'000;
constexpr int kReconnectMs = 50;
constexpr int kStreamMs = 3'000;
constexpr absl::Duration kNoProgress = absl::Milliseconds(300);
constexpr size_t kMaxInFlight = 24;
constexpr size_t kMaxInMessage = 8;
constexpr size_t kMaxInBatch = 6;
constexpr uint64_t kMaxMessages = 300;
constexpr int kLooks = 20;

gpr_timespec In(int ms) {
  return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_millis(ms, GPR_TIMESPAN));
}

std::shared_ptr<grpc::Channel> Connect(int port) {
  grpc::ChannelArguments arguments;
  // Each its own connection, as from another process, and soon again.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, kReconnectMs);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, kReconnectMs);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, kReconnectMs);
  return grpc::CreateCustomChannel("127.0.0.1:" + std::to_string(port),
                                   grpc::InsecureChannelCredentials(), arguments);
}

class Client {
 public:
  explicit Client(const ClientOptions& options) : options_(options), random_(options.seed) {
    for (const int port : options.ports) {
      channels_.push_back(Connect(port));
      stubs_.push_back(v1::IdempotencyService::NewStub(channels_.back()));
    }
  }

 protected:
  Board& board() { return *options_.board; }
  bool stopped() const { return *options_.stop; }
  // Turns to one of the servers. False: nothing is to be sent, since nobody is there: it would be
  // lost, and no lost call would tell anything.
  bool TurnToOne() {
    at_ = random_.Below(channels_.size());
    return channels_[at_]->WaitForConnected(In(kReconnectMs));
  }
  v1::IdempotencyService::Stub& stub() { return *stubs_[at_]; }

  // What was lost before, or something new.
  Draft Next(Kinds kinds) {
    if (!lost_.empty()) {
      Draft draft = std::move(lost_.front());
      lost_.pop_front();
      if (random_.Percent(75)) return draft;
    }
    return board().Draw(random_, kinds);
  }
  void Lost(Draft draft) { lost_.push_back(std::move(draft)); }

  const ClientOptions options_;
  Random random_;
  std::vector<std::shared_ptr<grpc::Channel>> channels_;
  size_t at_ = 0;

 private:
  std::vector<std::unique_ptr<v1::IdempotencyService::Stub>> stubs_;
  std::deque<Draft> lost_;
};

// --- Unary calls and batches
// ----------------------------------------------------------------------

class UnaryClient : public Client {
 public:
  explicit UnaryClient(const ClientOptions& options) : Client(options) {
    for (const auto& channel : channels_) {
      admins_.push_back(v1::IdempotencyAdminService::NewStub(channel));
    }
  }

  void Run() {
    while (!stopped()) {
      if (!TurnToOne()) continue;
      if (random_.OneIn(150)) {
        AskNamespace();
      } else if (random_.OneIn(12)) {
        AskBatch();
      } else {
        AskOne(Next(Kinds::kAll), kCallMs);
      }
    }
  }

  // Of whoever is there, or will be.
  bool Look(const Draft& draft) {
    TurnToOne();
    return AskOne(draft, kLookMs);
  }

 private:
  bool AskOne(Draft draft, int deadline_ms) {
    const Ticket ticket = board().Send(draft, options_.name);
    Outcome outcome =
        std::visit([&](const auto& request) { return Ask(request, deadline_ms); }, draft.request);
    const Ended ended = outcome.ended;
    board().Hear(ticket, std::move(outcome));
    // Some ask twice though they were answered.
    if (ended == Ended::kLost || random_.OneIn(25)) Lost(std::move(draft));
    return ended == Ended::kAnswered;
  }

  template <typename Response, typename Asking>
  static Outcome Answer(int deadline_ms, const Asking& ask) {
    grpc::ClientContext context;
    context.set_deadline(In(deadline_ms));
    Response response;
    const grpc::Status status = ask(&context, &response);
    if (!status.ok()) return HearFailure(status, context);
    return {Ended::kAnswered, Tell(response), ""};
  }

#define IDEMPOTENCY_ASK(stub, Method)                                                     \
  Outcome Ask(const v1::Method##Request& request, int deadline_ms) {                      \
    return Answer<v1::Method##Response>(deadline_ms, [&](auto* context, auto* response) { \
      return stub.Method(context, request, response);                                     \
    });                                                                                   \
  }
  IDEMPOTENCY_ASK(stub(), Reserve)
  IDEMPOTENCY_ASK(stub(), Renew)
  IDEMPOTENCY_ASK(stub(), Complete)
  IDEMPOTENCY_ASK(stub(), Release)
  IDEMPOTENCY_ASK(stub(), MarkUnresolved)
  IDEMPOTENCY_ASK(stub(), GetOperation)
  IDEMPOTENCY_ASK(admin(), InspectOperation)
  IDEMPOTENCY_ASK(admin(), ResolveOperation)
  IDEMPOTENCY_ASK(admin(), DeleteOperation)
#undef IDEMPOTENCY_ASK

  void AskBatch() {
    std::vector<Draft> drafts;
    std::vector<Ticket> tickets;
    v1::BatchRequest request;
    const size_t count = 2 + random_.Below(kMaxInBatch - 1);
    for (size_t i = 0; i < count; ++i) {
      drafts.push_back(board().Draw(random_, Kinds::kCommandsThatDoNotWait));
      *request.add_commands() = ToCommand(drafts.back().request, i);
    }
    for (const Draft& draft : drafts) {
      tickets.push_back(board().Send(draft, options_.name + " batch"));
    }
    grpc::ClientContext context;
    context.set_deadline(In(kCallMs));
    v1::BatchResponse response;
    const grpc::Status status = stub().Batch(&context, request, &response);
    if (status.ok() && response.results_size() != static_cast<int>(count)) {
      board().Wrong("a batch with another number of results than of commands");
      return;
    }
    for (size_t i = 0; i < count; ++i) {
      Outcome outcome = status.ok() ? network::Hear(response.results(static_cast<int>(i)))
                                    : HearFailure(status, context);
      if (outcome.ended == Ended::kLost) Lost(std::move(drafts[i]));
      board().Hear(tickets[i], std::move(outcome));
    }
  }

  // What it says is fixed: as the file has it.
  void AskNamespace() {
    const Space& space = random_.Any(Spaces());
    v1::GetNamespaceRequest request;
    request.set_name(space.name);
    grpc::ClientContext context;
    context.set_deadline(In(kCallMs));
    v1::GetNamespaceResponse response;
    const grpc::Status status = stub().GetNamespace(&context, request, &response);
    if (!status.ok()) {
      const Outcome outcome = HearFailure(status, context);
      if (!outcome.wrong.empty()) board().Wrong(outcome.wrong);
      return;
    }
    const v1::Namespace& told = response.namespace_();
    const auto unknown = static_cast<int>(space.policy.terms.unknown_outcome);
    if (told.name() != space.name || told.unknown_outcome() != unknown ||
        told.retention().seconds() != space.retention.count() / 1000) {
      board().Wrong("GetNamespace says " + told.ShortDebugString());
    }
    board().HearOther();
  }

  v1::IdempotencyAdminService::Stub& admin() { return *admins_[at_]; }

  std::vector<std::unique_ptr<v1::IdempotencyAdminService::Stub>> admins_;
};

// --- Pipelines
// --------------------------------------------------------------------------------------

// One stream: a thread that sends, which is the caller's, and one that receives.
class Stream {
 public:
  Stream(v1::IdempotencyService::Stub& stub, Board& board) : board_(board) {
    context_.set_deadline(In(kStreamMs));
    stream_ = stub.Pipeline(&context_);
    reader_ = std::thread([this] { Receive(); });
  }

  // Room for another command; false: there is none any more.
  bool Room() {
    absl::MutexLock lock(&mutex_);
    const auto room = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return in_flight_.size() < kMaxInFlight || over_;
    };
    // A stream on which nothing comes any more is given up.
    if (!mutex_.AwaitWithTimeout(absl::Condition(&room), kNoProgress)) context_.TryCancel();
    return in_flight_.size() < kMaxInFlight && !over_;
  }

  void Add(Draft draft, const std::string& by) {
    const bool waits = Waits(draft.request);
    const auto before = last_.find(draft.key);
    const Ticket ticket = board_.Send(
        draft, by, before == last_.end() ? std::nullopt : std::optional<size_t>(before->second));
    // One that waits is passed by those that come behind it.
    if (!waits) last_[draft.key] = ticket.call;
    *message_.add_commands() = ToCommand(draft.request, next_tag_);
    absl::MutexLock lock(&mutex_);
    in_flight_[next_tag_++] = {ticket, std::move(draft)};
  }

  bool Send() {
    const bool sent = stream_->Write(message_);
    message_.Clear();
    return sent;
  }

  // What was not answered.
  std::vector<Draft> Finish(bool in_peace) {
    if (in_peace) {
      stream_->WritesDone();
    } else {
      context_.TryCancel();
    }
    reader_.join();
    const grpc::Status status = stream_->Finish();
    absl::MutexLock lock(&mutex_);
    std::vector<Draft> lost;
    const Outcome outcome =
        status.ok() ? Outcome{.why = "its stream ended"} : HearFailure(status, context_);
    for (auto& [tag, command] : in_flight_) {
      if (!outcome.wrong.empty()) board_.Wrong(outcome.wrong);
      board_.Hear(command.ticket, {.why = outcome.why});
      lost.push_back(std::move(command.draft));
    }
    return lost;
  }

 private:
  struct Command {
    Ticket ticket;
    Draft draft;
  };

  void Receive() {
    v1::PipelineResponse response;
    while (stream_->Read(&response)) {
      for (const v1::Result& result : response.results()) {
        std::optional<Command> command = Remove(result.tag());
        if (!command.has_value()) {
          board_.Wrong("a result that nobody waits for");
          continue;
        }
        board_.Hear(command->ticket, network::Hear(result));
      }
    }
    absl::MutexLock lock(&mutex_);
    over_ = true;
  }

  std::optional<Command> Remove(uint64_t tag) {
    absl::MutexLock lock(&mutex_);
    const auto found = in_flight_.find(tag);
    if (found == in_flight_.end()) return std::nullopt;
    Command command = std::move(found->second);
    in_flight_.erase(found);
    return command;
  }

  Board& board_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<v1::PipelineRequest, v1::PipelineResponse>> stream_;
  std::thread reader_;
  v1::PipelineRequest message_;
  std::map<size_t, size_t> last_;  // of each key
  uint64_t next_tag_ = 1;
  absl::Mutex mutex_;
  std::map<uint64_t, Command> in_flight_ ABSL_GUARDED_BY(mutex_);
  bool over_ ABSL_GUARDED_BY(mutex_) = false;
};

class PipelineClient : public Client {
 public:
  using Client::Client;

  void Run() {
    while (!stopped()) {
      if (TurnToOne()) OneStream();
    }
  }

 private:
  void OneStream() {
    Stream stream(stub(), board());
    bool alive = true;
    for (uint64_t left = 20 + random_.Below(kMaxMessages); left > 0 && alive && !stopped();
         --left) {
      const size_t count = 1 + random_.Below(kMaxInMessage);
      for (size_t i = 0; i < count && alive; ++i) {
        alive = stream.Room();
        if (alive) stream.Add(Next(Kinds::kCommands), options_.name);
      }
      if (alive) alive = stream.Send();
    }
    for (Draft& draft : stream.Finish(alive)) Lost(std::move(draft));
  }
};

}  // namespace

void ServeUnary(const ClientOptions& options) { UnaryClient(options).Run(); }

void ServePipeline(const ClientOptions& options) { PipelineClient(options).Run(); }

bool AskAll(const ClientOptions& options, const std::vector<Draft>& drafts) {
  UnaryClient client(options);
  for (const Draft& draft : drafts) {
    bool answered = false;
    for (int i = 0; i < kLooks && !answered; ++i) answered = client.Look(draft);
    if (!answered) return false;
  }
  return true;
}

}  // namespace idempotency::proof::network
