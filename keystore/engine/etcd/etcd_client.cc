#include "keystore/engine/etcd/etcd_client.h"

#include <algorithm>
#include <atomic>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "etcdserverpb/rpc.grpc.pb.h"
#include "grpc/support/time.h"
#include "grpcpp/alarm.h"
#include "grpcpp/channel.h"
#include "grpcpp/client_context.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/security/credentials.h"
#include "grpcpp/support/channel_arguments.h"
#include "grpcpp/support/client_callback.h"
#include "keystore/core/time.h"

namespace idempotency::keystore {
namespace {

using etcdserverpb::TxnRequest;
using etcdserverpb::TxnResponse;

constexpr int kReadTries = 3;
constexpr core::Duration kReconnectAfter = std::chrono::milliseconds(100);
constexpr core::Duration kReconnectAtMost = std::chrono::seconds(1);
// A member that has gone without a word is noticed after this; etcd bears a ping in 5 s.
constexpr core::Duration kKeepalive = std::chrono::seconds(10);
constexpr core::Duration kKeepaliveTimeout = std::chrono::seconds(3);
constexpr core::Duration kWatchAgainAfter = std::chrono::seconds(1);
// For all that a look at the members asks, in calls that take their whole time.
constexpr int kLookCalls = 4;

gpr_timespec After(core::Duration span) {
  return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                      gpr_time_from_millis(span.count(), GPR_TIMESPAN));
}

absl::Status ToAbsl(const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  // A member that finds its files damaged: not that the store as a whole has lost anything.
  if (status.error_code() == grpc::StatusCode::DATA_LOSS) {
    return absl::UnavailableError(absl::StrCat("etcd: ", status.error_message()));
  }
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()),
                      absl::StrCat("etcd: ", status.error_message()));
}

bool MayBeAskedElsewhere(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status) ||
         absl::IsCancelled(status) || absl::IsUnknown(status);
}

// The token has run out, or users have been changed since it was given.
bool NeedsNewToken(const absl::Status& status) {
  return absl::IsUnauthenticated(status) ||
         (absl::IsInvalidArgument(status) && absl::StrContains(status.message(), "auth store"));
}

absl::StatusOr<std::string> ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream bytes;
  bytes << file.rdbuf();
  if (!file.good()) {
    return absl::InvalidArgumentError(absl::StrCat("cannot read ", path, "; check its path"));
  }
  return bytes.str();
}

absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> LoadCredentials(
    const EtcdOptions& options) {
  if (options.certificate_file.empty() != options.key_file.empty()) {
    return absl::InvalidArgumentError("etcd's client certificate needs its key, and the other way");
  }
  if (options.ca_file.empty()) {
    if (options.certificate_file.empty()) return grpc::InsecureChannelCredentials();
    return absl::InvalidArgumentError("a client certificate for etcd needs etcd's authority, too");
  }
  grpc::SslCredentialsOptions ssl;
  for (const auto& [path, bytes] : {std::pair(&options.ca_file, &ssl.pem_root_certs),
                                    std::pair(&options.certificate_file, &ssl.pem_cert_chain),
                                    std::pair(&options.key_file, &ssl.pem_private_key)}) {
    if (path->empty()) continue;
    auto read = ReadFile(*path);
    if (!read.ok()) return read.status();
    *bytes = *std::move(read);
  }
  return grpc::SslCredentials(ssl);
}

grpc::ChannelArguments MakeChannelArguments() {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);
  arguments.SetMaxSendMessageSize(-1);
  // We know what may be sent twice, gRPC does not.
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS,
                   static_cast<int>(kReconnectAfter.count()));
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, static_cast<int>(kReconnectAtMost.count()));
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, static_cast<int>(kReconnectAtMost.count()));
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, static_cast<int>(kKeepalive.count()));
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, static_cast<int>(kKeepaliveTimeout.count()));
  return arguments;
}

std::string PrefixRangeEnd(std::string prefix) {
  while (!prefix.empty() && prefix.back() == '\xff') prefix.pop_back();
  if (!prefix.empty()) ++prefix.back();
  return prefix.empty() ? std::string(1, '\0') : prefix;
}

struct Member {
  std::unique_ptr<etcdserverpb::KV::Stub> kv;
  std::unique_ptr<etcdserverpb::Maintenance::Stub> maintenance;
  std::unique_ptr<etcdserverpb::Watch::Stub> watch;
  std::unique_ptr<etcdserverpb::Auth::Stub> auth;
  std::unique_ptr<etcdserverpb::Cluster::Stub> cluster;
};

// One transaction, over all its tries. It owns itself through the callbacks of gRPC.
struct TxnCall {
  TxnRequest request;
  TxnResponse response;
  EtcdClient::TxnDone done;
  int tries_left = 1;
  bool has_new_token = false;
  size_t member = 0;
  std::unique_ptr<grpc::ClientContext> context;
};

}  // namespace

bool NothingWasDone(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kResourceExhausted:
    case absl::StatusCode::kUnauthenticated:
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kUnimplemented:
      return true;
    default:
      return false;
  }
}

class EtcdClient::Impl {
 public:
  Impl(const EtcdOptions& options, LogFunction log, std::string password)
      : options_(options), log_(std::move(log)), password_(std::move(password)) {}

  ~Impl() {
    EndWatch();
    absl::MutexLock lock(&mutex_);
    mutex_.Await(absl::Condition(
        +[](int* count) { return *count == 0; }, &outstanding_));
  }

  void Connect(const std::shared_ptr<grpc::ChannelCredentials>& credentials) {
    for (const std::string& endpoint : options_.endpoints) {
      const auto channel = grpc::CreateCustomChannel(endpoint, credentials, MakeChannelArguments());
      members_.push_back(
          Member{etcdserverpb::KV::NewStub(channel), etcdserverpb::Maintenance::NewStub(channel),
                 etcdserverpb::Watch::NewStub(channel), etcdserverpb::Auth::NewStub(channel),
                 etcdserverpb::Cluster::NewStub(channel)});
    }
  }

  void Start(TxnRequest request, int tries, TxnDone done) {
    auto call = std::make_shared<TxnCall>();
    call->request = std::move(request);
    call->done = std::move(done);
    call->tries_left = tries;
    Enter();
    Try(std::move(call));
  }

  absl::StatusOr<TxnResponse> Now(TxnRequest request, int tries) {
    absl::Notification answered;
    absl::StatusOr<TxnResponse> answer;
    Start(std::move(request), tries, [&](absl::StatusOr<TxnResponse> got) {
      answer = std::move(got);
      answered.Notify();
    });
    answered.WaitForNotification();
    return answer;
  }

  absl::StatusOr<etcdserverpb::StatusResponse> StatusNow() {
    const size_t member = current_;
    const auto context = MakeContext();
    etcdserverpb::StatusResponse response;
    const grpc::Status status = members_[member].maintenance->Status(context.get(), {}, &response);
    if (status.ok()) return response;
    absl::Status failed = ToAbsl(status);
    if (MayBeAskedElsewhere(failed)) LeaveMember(member);
    return failed;
  }

  EtcdView Look() {
    using etcdserverpb::AlarmRequest;
    using etcdserverpb::AuthStatusRequest;
    using etcdserverpb::MemberListRequest;
    using etcdserverpb::StatusRequest;
    const gpr_timespec end = After(kLookCalls * options_.call_timeout);
    EtcdView view;
    const Member* speaker = &members_.front();
    for (size_t i = members_.size(); i-- > 0;) {
      view.members.insert(view.members.begin(),
                          Ask(end, *members_[i].maintenance,
                              &etcdserverpb::Maintenance::Stub::Status, StatusRequest()));
      if (view.members.front().ok() && !view.members.front()->is_learner()) speaker = &members_[i];
    }
    view.list =
        Ask(end, *speaker->cluster, &etcdserverpb::Cluster::Stub::MemberList, MemberListRequest());
    view.alarms =
        Ask(end, *speaker->maintenance, &etcdserverpb::Maintenance::Stub::Alarm, AlarmRequest());
    view.auth =
        Ask(end, *speaker->auth, &etcdserverpb::Auth::Stub::AuthStatus, AuthStatusRequest());
    absl::MutexLock lock(&mutex_);
    view.has_token = !token_.empty();
    return view;
  }

  void BeginWatch(std::string prefix, OnEvents on_events) {
    watch_prefix_ = std::move(prefix);
    on_events_ = std::move(on_events);
    StartWatch();
  }

 private:
  class WatchStream;

  void Enter() {
    absl::MutexLock lock(&mutex_);
    ++outstanding_;
  }
  void Leave() {
    absl::MutexLock lock(&mutex_);
    --outstanding_;
  }

  std::unique_ptr<grpc::ClientContext> MakeContext() {
    auto context = std::make_unique<grpc::ClientContext>();
    context->set_deadline(After(options_.call_timeout));
    AddMetadata(context.get());
    return context;
  }

  // Waits for the answer, at most until `end`.
  template <typename Stub, typename Request, typename Response>
  absl::StatusOr<Response> Ask(gpr_timespec end, Stub& stub,
                               grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&,
                                                            Response*),
                               const Request& request) {
    grpc::ClientContext context;
    context.set_deadline(gpr_time_min(After(options_.call_timeout), end));
    // A member without a leader is to say what it knows.
    AddToken(&context);
    Response response;
    const grpc::Status status = (stub.*method)(&context, request, &response);
    if (!status.ok()) return ToAbsl(status);
    return response;
  }

  void AddMetadata(grpc::ClientContext* context) {
    // A member without a leader is to say so, and not to wait for one.
    context->AddMetadata("hasleader", "true");
    AddToken(context);
  }

  void AddToken(grpc::ClientContext* context) {
    absl::MutexLock lock(&mutex_);
    if (!token_.empty()) context->AddMetadata("token", token_);
  }

  void LeaveMember(size_t member) {
    current_.compare_exchange_strong(member, (member + 1) % members_.size());
  }

  bool has_token() {
    absl::MutexLock lock(&mutex_);
    return options_.user.empty() || !token_.empty();
  }

  void Try(std::shared_ptr<TxnCall> call) {
    if (!has_token() && !call->has_new_token) return Authenticate(std::move(call));
    --call->tries_left;
    call->member = current_;
    call->context = MakeContext();
    call->response.Clear();
    TxnCall& at = *call;
    members_[at.member].kv->async()->Txn(
        at.context.get(), &at.request, &at.response,
        [this, call = std::move(call)](const grpc::Status& status) { End(call, ToAbsl(status)); });
  }

  void End(const std::shared_ptr<TxnCall>& call, const absl::Status& status) {
    if (NeedsNewToken(status) && !options_.user.empty() && !call->has_new_token) {
      ++call->tries_left;
      return Authenticate(call);
    }
    if (MayBeAskedElsewhere(status)) {
      LeaveMember(call->member);
      if (call->tries_left > 0) return Try(call);
    }
    // It holds the channel, which must not go on a thread of gRPC's: that would join itself.
    call->context.reset();
    if (status.ok()) {
      std::move(call->done)(std::move(call->response));
    } else {
      std::move(call->done)(status);
    }
    Leave();
  }

  void Authenticate(std::shared_ptr<TxnCall> call) {
    struct Asked {
      etcdserverpb::AuthenticateRequest request;
      etcdserverpb::AuthenticateResponse response;
      std::unique_ptr<grpc::ClientContext> context = std::make_unique<grpc::ClientContext>();
    };
    call->has_new_token = true;
    auto asked = std::make_shared<Asked>();
    asked->request.set_name(options_.user);
    asked->request.set_password(password_);
    asked->context->set_deadline(After(options_.call_timeout));
    members_[current_].auth->async()->Authenticate(
        asked->context.get(), &asked->request, &asked->response,
        [this, asked, call = std::move(call)](const grpc::Status& status) {
          if (status.ok()) {
            absl::MutexLock lock(&mutex_);
            token_ = asked->response.token();
          } else {
            log_(kLogError, absl::StrCat("etcd does not let ", options_.user,
                                         " in: ", status.error_message()));
          }
          asked->context.reset();
          // Without a token it is told why not.
          Try(call);
        });
  }

  // --- Watching --------------------------------------------------------------------------------

  class WatchStream final
      : public grpc::ClientBidiReactor<etcdserverpb::WatchRequest, etcdserverpb::WatchResponse> {
   public:
    explicit WatchStream(Impl* impl) : impl_(*impl) {
      impl_.AddMetadata(&context_);
      etcdserverpb::WatchCreateRequest* const create = request_.mutable_create_request();
      create->set_key(impl_.watch_prefix_);
      create->set_range_end(PrefixRangeEnd(impl_.watch_prefix_));
      create->set_start_revision(impl_.watch_from());
    }

    void Begin(etcdserverpb::Watch::Stub* stub) {
      stub->async()->Watch(&context_, this);
      StartWrite(&request_);
      StartRead(&response_);
      StartCall();
    }
    void Cancel() { context_.TryCancel(); }

    void OnReadDone(bool ok) override {
      if (!ok) return;
      if (response_.events_size() > 0) impl_.on_events_(response_);
      impl_.NoteWatched(response_);
      if (response_.canceled()) return Cancel();
      StartRead(&response_);
    }
    void OnDone(const grpc::Status&) override { impl_.OnWatchEnded(this); }

   private:
    Impl& impl_;
    grpc::ClientContext context_;
    etcdserverpb::WatchRequest request_;
    etcdserverpb::WatchResponse response_;
  };

  int64_t watch_from() {
    absl::MutexLock lock(&mutex_);
    return watch_from_;
  }

  void NoteWatched(const etcdserverpb::WatchResponse& response) {
    absl::MutexLock lock(&mutex_);
    // The first one begins behind what is there.
    if (response.created() && watch_from_ == 0) watch_from_ = response.header().revision() + 1;
    if (response.compact_revision() > 0) watch_from_ = response.compact_revision();
    // Not what the header says, which may be ahead of events that are still to come.
    for (const etcdserverpb::Event& event : response.events()) {
      watch_from_ = std::max(watch_from_, event.kv().mod_revision() + 1);
    }
  }

  void StartWatch() {
    auto* const stream = new WatchStream(this);
    {
      absl::MutexLock lock(&mutex_);
      if (closing_) {
        delete stream;
        return;
      }
      ++outstanding_;
      watch_ = stream;
    }
    stream->Begin(members_[current_].watch.get());
  }

  void OnWatchEnded(WatchStream* stream) {
    {
      absl::MutexLock lock(&mutex_);
      watch_ = nullptr;
      if (!closing_) {
        ++outstanding_;
        // A new one each time: the last one may still be in its callback.
        watch_alarm_ = std::make_unique<grpc::Alarm>();
        watch_alarm_->Set(After(kWatchAgainAfter), [this](bool) {
          StartWatch();
          Leave();
        });
      }
    }
    delete stream;
    Leave();
  }

  void EndWatch() {
    absl::MutexLock lock(&mutex_);
    closing_ = true;
    if (watch_ != nullptr) watch_->Cancel();
    if (watch_alarm_ != nullptr) watch_alarm_->Cancel();
  }

  const EtcdOptions options_;
  const LogFunction log_;
  const std::string password_;
  std::vector<Member> members_;
  std::atomic<size_t> current_{0};
  std::string watch_prefix_;
  OnEvents on_events_;

  absl::Mutex mutex_;
  int outstanding_ ABSL_GUARDED_BY(mutex_) = 0;
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  std::string token_ ABSL_GUARDED_BY(mutex_);
  WatchStream* watch_ ABSL_GUARDED_BY(mutex_) = nullptr;
  // The first revision that was not told of yet; 0: from now on.
  int64_t watch_from_ ABSL_GUARDED_BY(mutex_) = 0;
  std::unique_ptr<grpc::Alarm> watch_alarm_ ABSL_GUARDED_BY(mutex_);
};

absl::StatusOr<std::unique_ptr<EtcdClient>> EtcdClient::Open(const EtcdOptions& options,
                                                             LogFunction log) {
  if (options.endpoints.empty()) {
    return absl::InvalidArgumentError("no member of etcd is named; give HOST:PORT of each");
  }
  auto credentials = LoadCredentials(options);
  if (!credentials.ok()) return credentials.status();
  std::string password;
  if (!options.user.empty()) {
    auto read = ReadFile(options.password_file);
    if (!read.ok()) return read.status();
    password = read->substr(0, read->find_first_of("\r\n"));
  }
  auto impl = std::make_unique<Impl>(options, std::move(log), std::move(password));
  impl->Connect(*credentials);
  return std::unique_ptr<EtcdClient>(new EtcdClient(std::move(impl)));
}

EtcdClient::EtcdClient(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

EtcdClient::~EtcdClient() = default;

void EtcdClient::Read(TxnRequest request, TxnDone done) {
  impl_->Start(std::move(request), kReadTries, std::move(done));
}

void EtcdClient::Write(TxnRequest request, TxnDone done) {
  impl_->Start(std::move(request), 1, std::move(done));
}

absl::StatusOr<TxnResponse> EtcdClient::ReadNow(TxnRequest request) {
  return impl_->Now(std::move(request), kReadTries);
}

absl::StatusOr<TxnResponse> EtcdClient::WriteNow(TxnRequest request) {
  return impl_->Now(std::move(request), 1);
}

absl::StatusOr<etcdserverpb::StatusResponse> EtcdClient::StatusNow() { return impl_->StatusNow(); }

EtcdView EtcdClient::Look() { return impl_->Look(); }

void EtcdClient::Watch(std::string prefix, OnEvents on_events) {
  impl_->BeginWatch(std::move(prefix), std::move(on_events));
}

}  // namespace idempotency::keystore
