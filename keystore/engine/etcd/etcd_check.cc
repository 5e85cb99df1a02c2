#include "keystore/engine/etcd/etcd_check.h"

#include <algorithm>
#include <compare>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "etcdserverpb/rpc.pb.h"

namespace idempotency::keystore {
namespace {

using etcdserverpb::StatusResponse;

constexpr uint64_t kFullNumerator = 6;
constexpr uint64_t kFullDenominator = 7;

constexpr NamedCheck kVersion(
    "etcd.version",
    "Versions have faults that break what we rely on: reads that are older than what was "
    "acknowledged, writes that are lost.");
constexpr NamedCheck kQuorum("etcd.quorum",
                             "Without a leader and a quorum every answer is UNAVAILABLE.");
constexpr NamedCheck kOneCluster(
    "etcd.one_cluster",
    "Servers that speak to two clusters grant the same operation twice: each has its own records.");
constexpr NamedCheck kMembers(
    "etcd.members",
    "How many members may be lost without losing what was acknowledged, or the service.");
constexpr NamedCheck kEndpoints("etcd.endpoints",
                                "A member that is not named cannot take over for one that fails.");
constexpr NamedCheck kLearner("etcd.learner",
                              "A learner has no vote and answers nothing that we ask.");
constexpr NamedCheck kAlarms("etcd.alarms",
                             "An alarm says that members hold different data, or that there is no "
                             "more room.");
constexpr NamedCheck kSpace("etcd.space",
                            "From six sevenths of the quota on new keys are refused.");
constexpr NamedCheck kTxnOps("etcd.max_txn_ops",
                             "It bounds how many operations share one transaction and one sync.");
constexpr NamedCheck kRequest(
    "etcd.max_request_bytes",
    "An answer that we take for small enough and etcd does not is refused, and its owner is told "
    "UNAVAILABLE for ever.");
constexpr NamedCheck kTls("etcd.tls",
                          "In the clear others on the network can read and change every record.");
constexpr NamedCheck kAuth("etcd.auth",
                           "Whoever reaches an etcd that asks nobody who they are can change every "
                           "record.");
constexpr NamedCheck kClock("etcd.clock",
                            "A lease is over for other servers --clock_skew_ms after its end: "
                            "clocks that are further apart "
                            "end leases too early or too late.");

// --- Versions ------------------------------------------------------------------------------------

struct Release {
  int major = 0;
  int minor = 0;
  int patch = 0;

  friend constexpr auto operator<=>(const Release&, const Release&) = default;
};

std::optional<Release> ParseRelease(std::string_view text) {
  const std::vector<std::string> parts =
      absl::StrSplit(std::string(text.substr(0, text.find_first_of("-+"))), '.');
  Release release;
  if (parts.size() != 3 || !absl::SimpleAtoi(parts[0], &release.major) ||
      !absl::SimpleAtoi(parts[1], &release.minor) || !absl::SimpleAtoi(parts[2], &release.patch)) {
    return std::nullopt;
  }
  return release;
}

// What is wrong with releases from one up to and without another.
struct Fault {
  Release from;
  Release until;
  bool only_one_member;
  bool breaks_guarantee;
  std::string_view what;
};

constexpr std::string_view kStaleReads =
    "a member that was paused can answer a read with what was true before";
constexpr std::string_view kLosesAlone =
    "one that is alone acknowledges writes before they are on its disk";
constexpr std::string_view kFullRefusesReads = "when it is full it refuses reads, too";
constexpr Fault kFaults[] = {
    {{0, 0, 0}, {3, 4, 0}, false, true, "it is older than what the service was made for"},
    {{3, 4, 20}, {3, 4, 42}, false, true, kStaleReads},
    {{3, 5, 0}, {3, 5, 28}, false, true, kStaleReads},
    {{3, 6, 0}, {3, 6, 9}, false, true, kStaleReads},
    {{3, 5, 0}, {3, 5, 3}, false, true, "members can differ after one is killed under load"},
    {{3, 4, 0}, {3, 4, 21}, true, true, kLosesAlone},
    {{3, 5, 0}, {3, 5, 5}, true, true, kLosesAlone},
    {{3, 4, 0}, {3, 4, 20}, false, false, kFullRefusesReads},
    {{3, 5, 0}, {3, 5, 7}, false, false, kFullRefusesReads},
};

// --- What the members say ------------------------------------------------------------------------

std::vector<const StatusResponse*> Answers(const EtcdView& view) {
  std::vector<const StatusResponse*> answers;
  for (const auto& member : view.members) {
    if (member.ok()) answers.push_back(&*member);
  }
  return answers;
}

std::set<std::string> VersionSet(const EtcdView& view) {
  std::set<std::string> versions;
  for (const StatusResponse* answer : Answers(view)) versions.insert(answer->version());
  return versions;
}

// The endpoints for which it holds.
template <typename Holds>
std::string Those(const EtcdCheckFacts& facts, Holds holds) {
  std::vector<std::string> those;
  for (size_t i = 0; i < facts.view.members.size(); ++i) {
    if (holds(facts.view.members[i])) those.push_back(facts.endpoints[i]);
  }
  return absl::StrJoin(those, ", ");
}

std::string Silent(const EtcdCheckFacts& facts) {
  return Those(facts, [](const auto& member) { return !member.ok(); });
}

// Well, as far as every endpoint has answered.
Finding OkOfAll(const NamedCheck& check, const EtcdCheckFacts& facts, const std::string& seen) {
  const std::string silent = Silent(facts);
  if (silent.empty()) return check.Ok(seen);
  return check.NotChecked(absl::StrCat(seen, "; no answer from ", silent),
                          "start that member, and ask again");
}

// Nothing: who the members are is not known.
std::optional<size_t> Voters(const EtcdView& view) {
  if (!view.list.ok()) return std::nullopt;
  const auto& members = view.list->members();
  return static_cast<size_t>(
      std::count_if(members.begin(), members.end(),
                    [](const etcdserverpb::Member& member) { return !member.is_learner(); }));
}

constexpr std::string_view kAskAnother =
    "see to the members, and that --etcd_endpoints and the user's role are right; then ask again";

Finding NobodySays(const NamedCheck& check, const absl::Status& status) {
  return check.NotChecked(absl::StrCat("etcd does not say: ", std::string(status.message())),
                          std::string(kAskAnother));
}

Finding NobodyAnswers(const NamedCheck& check) {
  return check.NotChecked("no member answers", std::string(kAskAnother));
}

// How many members are listed whom no endpoint has answered for; nothing: who they are is not
// known.
std::optional<size_t> NotHeardOf(const EtcdView& view) {
  if (!view.list.ok()) return std::nullopt;
  std::set<uint64_t> heard;
  for (const StatusResponse* answer : Answers(view)) heard.insert(answer->header().member_id());
  const auto& members = view.list->members();
  return static_cast<size_t>(std::count_if(
      members.begin(), members.end(),
      [&heard](const etcdserverpb::Member& member) { return heard.count(member.id()) == 0; }));
}

// No fault is known of those that have answered. What the others are, and, where nobody says who
// they are, whether there is only one, is not.
Finding VersionsAreWell(const EtcdCheckFacts& facts, const std::string& seen) {
  const std::optional<size_t> others = NotHeardOf(facts.view);
  if (!others.has_value()) {
    return kVersion.NotChecked(absl::StrCat(seen,
                                            "; which members there are besides, etcd does not "
                                            "say: ",
                                            std::string(facts.view.list.status().message())),
                               std::string(kAskAnother));
  }
  const bool all_have_answered = Silent(facts).empty();
  if (*others > 0 && all_have_answered) {
    return kVersion.NotChecked(
        absl::StrCat(seen, "; ", *others, " more that no endpoint stands for"),
        "name every member in --etcd_endpoints, and ask again");
  }
  return OkOfAll(kVersion, facts, seen);
}

Finding JudgeVersion(const EtcdCheckFacts& facts) {
  const std::set<std::string> versions = VersionSet(facts.view);
  if (versions.empty()) return NobodyAnswers(kVersion);
  const bool alone = Voters(facts.view) == 1;
  std::set<std::string> faults;
  bool breaks = false;
  for (const std::string& version : versions) {
    const std::optional<Release> release = ParseRelease(version);
    if (!release.has_value()) {
      return kVersion.NotChecked(absl::StrCat("a member says that it is ", version),
                                 "run a released version: 3.5.28, 3.6.9 or newer");
    }
    for (const Fault& fault : kFaults) {
      if (*release < fault.from || *release >= fault.until || (fault.only_one_member && !alone)) {
        continue;
      }
      breaks |= fault.breaks_guarantee;
      faults.insert(absl::StrCat("of ", version, ": ", std::string(fault.what)));
    }
  }
  const std::string seen = absl::StrJoin(versions, ", ");
  if (faults.empty()) return VersionsAreWell(facts, seen);
  std::string told = absl::StrCat(seen, "; known ", absl::StrJoin(faults, "; "));
  std::string next = "upgrade every member to 3.5.28, 3.6.9 or newer";
  return breaks ? kVersion.Fails(std::move(told), std::move(next))
                : kVersion.Warning(std::move(told), std::move(next));
}

Finding JudgeQuorum(const EtcdCheckFacts& facts) {
  const std::vector<const StatusResponse*> answers = Answers(facts.view);
  if (answers.empty()) {
    return kQuorum.Fails("no member answers", "start the members, and see to the network");
  }
  const bool has_leader =
      std::any_of(answers.begin(), answers.end(),
                  [](const StatusResponse* answer) { return answer->leader() != 0; });
  if (!has_leader) {
    return kQuorum.Fails(absl::StrCat(answers.size(), " of ", facts.endpoints.size(),
                                      " members answer, and know of no leader"),
                         "start the other members: more than half of them have to run");
  }
  const std::string silent = Silent(facts);
  if (silent.empty()) return kQuorum.Ok(absl::StrCat("all of ", answers.size(), " answer"));
  return kQuorum.Warning(absl::StrCat("there is a leader, and no answer from ", silent),
                         "start that member, or take it out of the cluster and of "
                         "--etcd_endpoints");
}

Finding JudgeOneCluster(const EtcdCheckFacts& facts) {
  std::set<uint64_t> clusters;
  for (const StatusResponse* answer : Answers(facts.view)) {
    clusters.insert(answer->header().cluster_id());
  }
  if (clusters.empty()) return NobodyAnswers(kOneCluster);
  if (clusters.size() == 1) {
    return OkOfAll(kOneCluster, facts, "all who answer are of one cluster");
  }
  return kOneCluster.Fails(absl::StrCat("the endpoints are of ", clusters.size(), " clusters"),
                           "stop the servers, and name members of one cluster in "
                           "--etcd_endpoints of each");
}

Finding JudgeMembers(const EtcdCheckFacts& facts) {
  const std::optional<size_t> voters = Voters(facts.view);
  if (!voters.has_value()) return NobodySays(kMembers, facts.view.list.status());
  if (*voters == 1) {
    return kMembers.Warning(
        "one member: with its disk everything is lost, and damage to its data "
        "cannot be noticed",
        "use three or five members for anything but development");
  }
  const std::string seen = absl::StrCat(*voters, " members have a vote");
  if (*voters == 2) {
    return kMembers.Warning(absl::StrCat(seen, ": when either fails nothing is answered"),
                            "add a third");
  }
  return kMembers.Ok(absl::StrCat(seen, ": ", (*voters - 1) / 2, " may fail"));
}

Finding JudgeEndpoints(const EtcdCheckFacts& facts) {
  if (!facts.view.list.ok()) return NobodySays(kEndpoints, facts.view.list.status());
  const auto listed = static_cast<size_t>(facts.view.list->members_size());
  const std::string seen =
      absl::StrCat(facts.endpoints.size(), " endpoints for ", listed, " members");
  if (facts.endpoints.size() < listed) {
    return kEndpoints.Warning(seen, "name every member in --etcd_endpoints");
  }
  std::set<uint64_t> who;
  const std::vector<const StatusResponse*> answers = Answers(facts.view);
  for (const StatusResponse* answer : answers) who.insert(answer->header().member_id());
  if (who.size() < answers.size()) {
    return kEndpoints.Warning(
        absl::StrCat(seen, ", and some are one member: ", who.size(), " have answered"),
        "name each member once in --etcd_endpoints, by an address that is its own");
  }
  if (who.size() < listed) {
    return kEndpoints.NotChecked(absl::StrCat(seen, ", and ", who.size(), " have answered"),
                                 "see to the silent ones, then ask again");
  }
  return kEndpoints.Ok(seen);
}

Finding JudgeLearner(const EtcdCheckFacts& facts) {
  if (Answers(facts.view).empty()) return NobodyAnswers(kLearner);
  const std::string learners =
      Those(facts, [](const auto& member) { return member.ok() && member->is_learner(); });
  if (learners.empty()) {
    return OkOfAll(kLearner, facts, "none of the endpoints that answer is one");
  }
  return kLearner.Warning(absl::StrCat(learners, " is one"),
                          "promote it (etcdctl member promote), or take it out of "
                          "--etcd_endpoints");
}

Finding JudgeAlarms(const EtcdCheckFacts& facts) {
  bool no_space = false;
  bool corrupt = false;
  if (facts.view.alarms.ok()) {
    for (const auto& alarm : facts.view.alarms->alarms()) {
      no_space |= alarm.alarm() == etcdserverpb::NOSPACE;
      corrupt |= alarm.alarm() == etcdserverpb::CORRUPT;
    }
  }
  for (const StatusResponse* answer : Answers(facts.view)) {
    for (const std::string& error : answer->errors()) {
      no_space |= absl::StrContains(error, "NOSPACE");
      corrupt |= absl::StrContains(error, "CORRUPT");
    }
  }
  if (corrupt) {
    return kAlarms.Fails("CORRUPT: members hold different data",
                         "stop the servers, and follow etcd's guide to data corruption before they "
                         "start again");
  }
  if (no_space) {
    return kAlarms.Warning("NOSPACE: the quota is used up, and new keys are refused",
                           "compact, defragment, raise the quota, then etcdctl alarm disarm");
  }
  if (!facts.view.alarms.ok()) return NobodySays(kAlarms, facts.view.alarms.status());
  return kAlarms.Ok("none is raised");
}

Finding JudgeSpace(const EtcdCheckFacts& facts) {
  const std::vector<const StatusResponse*> answers = Answers(facts.view);
  if (answers.empty()) return NobodyAnswers(kSpace);
  uint64_t used = 0;
  uint64_t told_quota = 0;
  for (const StatusResponse* answer : answers) {
    const int64_t in_use = answer->db_size_in_use();
    used = std::max(used, static_cast<uint64_t>(in_use > 0 ? in_use : answer->db_size()));
    if (answer->db_size_quota() <= 0) continue;
    const auto quota = static_cast<uint64_t>(answer->db_size_quota());
    told_quota = told_quota == 0 ? quota : std::min(told_quota, quota);
  }
  const uint64_t quota = told_quota > 0 ? told_quota : facts.quota_bytes;
  std::string seen = absl::StrCat(used, " of ", quota, " bytes are in use");
  if (IsNearQuota(used, quota)) {
    return kSpace.Warning(absl::StrCat(seen, ": new keys are refused"),
                          "compact and defragment, or raise --quota-backend-bytes and "
                          "--etcd_quota_mb");
  }
  if (told_quota > 0) return OkOfAll(kSpace, facts, seen);
  return kSpace.NotChecked(absl::StrCat(seen,
                                        ", if the quota is what --etcd_quota_mb says: etcd "
                                        "tells it from 3.6 on"),
                           "compare --etcd_quota_mb with --quota-backend-bytes of each member");
}

// --- Limits and doors ----------------------------------------------------------------------------

Finding JudgeTxnOps(size_t txn_ops) {
  const std::string seen = absl::StrCat("it takes ", txn_ops, " in a transaction");
  if (txn_ops >= kUsualTxnOps) return kTxnOps.Ok(absl::StrCat(seen, " or more"));
  return kTxnOps.Warning(absl::StrCat(seen, ", so that batches are small"),
                         "raise --max-txn-ops to 128 on each member, and restart the servers");
}

Finding JudgeRequest(const EtcdCheckFacts& facts) {
  const std::string size = absl::StrCat(facts.max_request_bytes, " bytes");
  if (facts.large_request.ok()) return kRequest.Ok(absl::StrCat("it takes requests of ", size));
  const bool refused = absl::IsInvalidArgument(facts.large_request) ||
                       absl::IsResourceExhausted(facts.large_request);
  if (!refused) return NobodySays(kRequest, facts.large_request);
  return kRequest.Fails(absl::StrCat("it refuses a request of ", size, ": ",
                                     std::string(facts.large_request.message())),
                        "lower --etcd_max_request_kb, or raise --max-request-bytes of each member");
}

bool IsLoopback(std::string_view endpoint) {
  return endpoint.rfind("127.", 0) == 0 || endpoint.rfind("localhost:", 0) == 0 ||
         endpoint.rfind("[::1]:", 0) == 0 || endpoint.rfind("unix:", 0) == 0;
}

Finding JudgeTls(const EtcdCheckFacts& facts) {
  if (facts.tls) return kTls.Ok("connections are encrypted");
  if (std::all_of(facts.endpoints.begin(), facts.endpoints.end(), IsLoopback)) {
    return kTls.Ok("connections are in the clear, and do not leave this machine");
  }
  return kTls.Warning("connections are in the clear", "serve TLS from etcd, and give --etcd_ca");
}

// Nothing: it is not known.
std::optional<bool> AsksWho(const EtcdCheckFacts& facts) {
  const absl::StatusOr<etcdserverpb::AuthStatusResponse>& auth = facts.view.auth;
  if (auth.ok()) return auth->enabled();
  // Only root may know; so somebody asks.
  if (absl::IsPermissionDenied(auth.status()) || absl::IsUnauthenticated(auth.status()) ||
      facts.view.has_token) {
    return true;
  }
  // 3.4 does not tell. It serves us, who have not said who we are.
  const bool serves_anybody = facts.large_request.ok() && !facts.has_certificate;
  return serves_anybody ? std::optional(false) : std::nullopt;
}

Finding JudgeAuth(const EtcdCheckFacts& facts) {
  const std::optional<bool> asks = AsksWho(facts);
  if (asks == true) return kAuth.Ok("callers have to say who they are");
  if (!asks.has_value()) return NobodySays(kAuth, facts.view.auth.status());
  if (facts.has_certificate) {
    return kAuth.NotChecked(
        "authentication is off; whether it demands a client certificate is not "
        "known",
        "see to it that etcd runs with --client-cert-auth, or enable "
        "authentication");
  }
  return kAuth.Warning("authentication is off",
                       "make a user with a role for the prefix alone, enable authentication, and "
                       "give --etcd_user");
}

}  // namespace

bool IsNearQuota(uint64_t used_bytes, uint64_t quota_bytes) {
  return used_bytes >= quota_bytes / kFullDenominator * kFullNumerator;
}

std::string VersionsOf(const EtcdView& view) { return absl::StrJoin(VersionSet(view), ", "); }

std::vector<Finding> Judge(const EtcdCheckFacts& facts) {
  return {JudgeVersion(facts),
          JudgeQuorum(facts),
          JudgeOneCluster(facts),
          JudgeMembers(facts),
          JudgeEndpoints(facts),
          JudgeLearner(facts),
          JudgeAlarms(facts),
          JudgeSpace(facts),
          JudgeTxnOps(facts.txn_ops),
          JudgeRequest(facts),
          JudgeTls(facts),
          JudgeAuth(facts),
          kClock.NotChecked(absl::StrCat("etcd does not tell the time; servers may be ",
                                         facts.clock_skew.count(), " ms apart"),
                            "compare the clocks of all servers (chronyc tracking on each)")};
}

}  // namespace idempotency::keystore
