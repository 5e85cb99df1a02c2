// Thousands of bad requests to the real server: each is refused as the contract says, nothing is
// changed or made by any, what the caller sent is repeated nowhere, and the server goes on.
#include <signal.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "google/protobuf/stubs/logging.h"
#include "tests/proof/crash/daemon.h"
#include "tests/proof/crash/program.h"
#include "tests/proof/requests/judge.h"
#include "tests/proof/requests/malformed.h"
#include "tests/proof/requests/reflect.h"
#include "tests/proof/requests/sentinels.h"
#include "tests/proof/requests/spoiler.h"
#include "tests/proof/requests/wire.h"
#include "tests/support/temp_directory.h"

namespace idempotency::proof {
namespace {

constexpr char kUsage[] =
    "usage: idempotency_bad_requests [--seed=N] [--floor=N] [--seconds=N]\n"
    "\n"
    "Sends bad requests to idempotencyd. IDEMPOTENCYD in the environment names another binary "
    "than\n"
    "the one beside this program.\n"
    "\n"
    "  --seed=N      of what is wrong with them (1)\n"
    "  --floor=N     fewer calls than this are a failure (5000)\n"
    "  --seconds=N   go on for so long (PROOF_SECONDS in the environment); else until the floor\n";

constexpr int kTwoFaults = 60;
constexpr int kFinishingVerbs = 40;
constexpr int kBatches = 12;

std::vector<std::string> Flags(const TempDirectory& directory) {
  std::ofstream(directory.file("config.yaml")) << kConfig;
  // The audit names operations, as it must: it is not the log.
  return {"--data_dir=" + directory.file("store"), "--ballast_mb=0",
          "--audit_log=" + directory.file("audit"), "--config=" + directory.file("config.yaml")};
}

// The line of the log that holds what no log may: keys, bodies, progress, credentials. Namespaces,
// who did what for which reason, and what leads to other systems are told.
std::string RepeatedIn(const std::string& log) {
  constexpr std::array<std::string_view, 6> kTold = {
      "actor", "reason", "namespace", "operation_ref", "provider_request_id", "trace_id"};
  for (size_t at = log.find(kMark); at != std::string::npos; at = log.find(kMark, at + 1)) {
    // ..."name":"value...
    const size_t name_end = log.rfind("\":\"", at);
    const size_t name = name_end == std::string::npos ? 0 : log.rfind('"', name_end - 1) + 1;
    const std::string_view field = std::string_view(log).substr(name, name_end - name);
    if (std::find(kTold.begin(), kTold.end(), field) != kTold.end()) continue;
    const size_t line = log.rfind('\n', at) + 1;
    return log.substr(line, log.find('\n', at) - line);
  }
  return "";
}

// Of the lines of `text`, the first that `other` does not have.
std::string FirstLineMissing(const std::string& text, const std::string& other) {
  for (size_t at = 0, end = 0; (end = text.find('\n', at)) != std::string::npos; at = end + 1) {
    const std::string line = text.substr(at, end + 1 - at);
    if (other.find(line) == std::string::npos) return line;
  }
  return "nothing";
}

class BadRequests {
 public:
  explicit BadRequests(const Settings& settings)
      : tally_(settings), seed_(settings.seed), daemon_(Daemon::Program(), Flags(directory_)) {}

  int Run() {
    const std::string wrong = Prepare();
    if (!wrong.empty()) tally_.Failed(wrong);
    while (wrong.empty() && tally_.GoesOn()) Block();
    if (wrong.empty()) Finish();
    return tally_.Summary("calls");
  }

 private:
  std::string Prepare() {
    std::string wrong = daemon_.Start();
    if (!wrong.empty()) return wrong;
    sentinels_ = std::make_unique<Sentinels>(daemon_.Connect());
    wrong = sentinels_->Make();
    if (!wrong.empty()) return "the sentinels cannot be made: " + wrong;
    before_ = sentinels_->Snapshot();
    spoiler_ = std::make_unique<Spoiler>(seed_, &sentinels_->all());
    wire_ = std::make_unique<Wire>(daemon_.Connect());
    return "";
  }

  // One request of each kind, and whether they have left a trace.
  void Block() {
    for (const BadRequest& bad : spoiler_->OneFault()) Send(bad);
    for (const BadRequest& bad : spoiler_->WrongState()) Send(bad);
    for (int i = 0; i < kTwoFaults; ++i) Send(spoiler_->TwoFaults());
    for (int i = 0; i < kFinishingVerbs; ++i) Send(spoiler_->FinishingVerb());
    for (int i = 0; i < kBatches; ++i) SendTogether(i % 2 == 0);
    for (const Malformed& malformed : MakeMalformed(spoiler_.get(), blocks_)) Send(malformed);
    Compare();
    ++blocks_;
  }

  void Compare() {
    const std::string after = sentinels_->Snapshot();
    if (after == before_) return;
    tally_.Failed("block " + std::to_string(blocks_) + " has changed what is recorded:\nno more: " +
                  FirstLineMissing(before_, after) + "\nnow: " + FirstLineMissing(after, before_));
    before_ = after;
  }

  void Note(const std::string& name, const std::string& wrong) {
    if (wrong.empty()) return tally_.Passed();
    // The same mistake comes again in every block.
    if (++known_[name] == 1) tally_.Failed(name + ": " + wrong);
  }

  void Send(const BadRequest& bad) {
    const Answer answer = wire_->Call(bad.method->path, bad.request->SerializeAsString());
    const std::string wrong = JudgeRefusal(answer, bad.expected, TextsOf(*bad.request));
    Note(bad.method->path + ", " + bad.name,
         wrong.empty() ? "" : wrong + "\n" + bad.request->ShortDebugString().substr(0, 1000));
  }

  void Send(const Malformed& malformed) {
    const std::unique_ptr<Wire> lonely =
        malformed.alone ? std::make_unique<Wire>(daemon_.Connect()) : nullptr;
    Wire* const wire = malformed.alone ? lonely.get() : wire_.get();
    const Answer answer =
        malformed.stream
            ? wire->Stream(malformed.method, malformed.messages, malformed.metadata)
            : wire->Call(malformed.method, malformed.messages.at(0), malformed.metadata);
    Note(malformed.method + ", " + malformed.name, Judge(malformed, answer));
  }

  static std::string Judge(const Malformed& malformed, const Answer& answer) {
    if (!malformed.expected.reason.empty()) {
      return JudgeRefusal(answer, malformed.expected, {});
    }
    const auto& codes = malformed.codes;
    const grpc::StatusCode code = answer.status.error_code();
    if (std::find(codes.begin(), codes.end(), code) != codes.end()) return "";
    return "is told " + std::to_string(code) + " " + answer.status.error_message();
  }

  // Bad commands among good ones, which are answered all the same.
  void SendTogether(bool as_batch) {
    const Together together = MakeTogether(spoiler_.get(), sentinels_->all(), as_batch);
    const Answer answer = as_batch ? wire_->Call(kBatchPath, together.bytes)
                                   : wire_->Stream(kPipelinePath, {together.bytes});
    const std::string wrong = JudgeTogether(together, answer, as_batch);
    Note(as_batch ? "Batch" : "Pipeline", wrong);
  }

  void Finish() {
    daemon_.Signal(SIGTERM);
    const int code = daemon_.Wait();
    if (code != 0) tally_.Failed("exit code " + std::to_string(code) + "\n" + daemon_.Log());
    const std::string repeated = RepeatedIn(daemon_.Log());
    if (!repeated.empty()) tally_.Failed("the log repeats what was sent: " + repeated);
    std::printf("%d blocks\n", blocks_);
  }

  Tally tally_;
  const uint64_t seed_;
  TempDirectory directory_;
  Daemon daemon_;
  std::unique_ptr<Sentinels> sentinels_;
  std::unique_ptr<Spoiler> spoiler_;
  std::unique_ptr<Wire> wire_;
  std::string before_;
  std::map<std::string, int> known_;
  int blocks_ = 0;
};

}  // namespace
}  // namespace idempotency::proof

int main(int argc, char** argv) {
  using namespace idempotency::proof;
  Settings defaults;
  defaults.floor = 5000;
  // It would tell of every text that is not UTF-8.
  google::protobuf::SetLogHandler(nullptr);
  return BadRequests(ReadSettings(argc, argv, kUsage, defaults)).Run();
}
