// The provider: a bank that charges, loses replies, is slow, and dies. What it has done is in its
// journal, a file, so that it is known after a crash. It has no idea of idempotencyd.
//
//   bank --listen=127.0.0.1:0 --port_file=FILE --journal=FILE
//
// The journal, one line each:
//
//   prepare KNOWS_KEYS FAULT...           begins anew
//   call                                  CreateCharge was called
//   charge ID ORDER CENTS KEY             an account was charged
#include <grpcpp/grpcpp.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <fstream>
#include <memory>
#include <mutex>
#include <sstream>
#include <string>
#include <vector>

#include "bank.grpc.pb.h"
#include "example.h"

namespace {

struct Done {
  bank::Charge charge;
  std::string key;
};

class Journal {
 public:
  explicit Journal(const std::string& path) : path_(path) {
    std::ifstream in(path);
    for (std::string line; std::getline(in, line);) Read(line);
  }

  void Prepare(const bank::PrepareRequest& request) {
    std::string line = "prepare " + std::to_string(request.knows_keys());
    for (const int fault : request.faults()) line += " " + std::to_string(fault);
    Write(line);
  }

  // A call begins: what becomes of it.
  bank::Fault Begin() {
    const std::scoped_lock lock(mutex_);
    const auto number = static_cast<size_t>(calls_);
    WriteLocked("call");
    ++open_;
    return number < faults_.size() ? faults_[number] : bank::FAULT_NONE;
  }

  // The effect: charges, unless it knows the key.
  bank::Charge Charge(const bank::ChargeRequest& request, const std::string& key) {
    const std::scoped_lock lock(mutex_);
    if (knows_keys_ && !key.empty()) {
      for (const Done& done : done_) {
        if (done.key == key) return done.charge;
      }
    }
    std::ostringstream line;
    line << "charge ch_" << done_.size() + 1 << " " << request.order() << " " << request.cents()
         << " " << (key.empty() ? "-" : key);
    WriteLocked(line.str());
    return done_.back().charge;
  }

  // A call has done what it does.
  void End() {
    const std::scoped_lock lock(mutex_);
    --open_;
    ended_.notify_all();
  }

  bool Find(const std::string& order, bank::Charge* charge) {
    const std::scoped_lock lock(mutex_);
    for (const Done& done : done_) {
      if (done.charge.order() != order) continue;
      *charge = done.charge;
      return true;
    }
    return false;
  }

  // When no call is open any more: some come late.
  void Fill(bank::Statement* statement) {
    std::unique_lock lock(mutex_);
    ended_.wait(lock, [this] { return open_ == 0; });
    for (const Done& done : done_) *statement->add_charges() = done.charge;
    statement->set_calls(calls_);
  }

 private:
  void Write(const std::string& line) {
    const std::scoped_lock lock(mutex_);
    WriteLocked(line);
  }

  // Written before it counts.
  void WriteLocked(const std::string& line) {
    std::ofstream(path_, std::ios::app) << line << std::endl;
    Read(line);
  }

  void Read(const std::string& line) {
    std::istringstream in(line);
    std::string word;
    in >> word;
    if (word == "prepare") {
      calls_ = 0;
      faults_.clear();
      done_.clear();
      in >> knows_keys_;
      for (int fault = 0; in >> fault;) faults_.push_back(static_cast<bank::Fault>(fault));
    } else if (word == "call") {
      ++calls_;
    } else if (word == "charge") {
      Done done;
      int64_t cents = 0;
      in >> *done.charge.mutable_id() >> *done.charge.mutable_order() >> cents >> done.key;
      done.charge.set_cents(cents);
      done_.push_back(done);
    }
  }

  const std::string path_;
  std::mutex mutex_;
  std::condition_variable ended_;
  int open_ = 0;
  bool knows_keys_ = false;
  std::vector<bank::Fault> faults_;
  std::vector<Done> done_;
  int calls_ = 0;
};

class Bank final : public bank::Bank::Service {
 public:
  explicit Bank(Journal* journal) : journal_(journal) {}

  grpc::Status CreateCharge(grpc::ServerContext* context, const bank::ChargeRequest* request,
                            bank::Charge* charge) override {
    const auto key_sent = context->client_metadata().find("idempotency-key");
    const std::string key = key_sent == context->client_metadata().end()
                                ? std::string()
                                : std::string(key_sent->second.data(), key_sent->second.size());
    const bank::Fault fault = journal_->Begin();
    if (fault == bank::FAULT_CRASH_BEFORE) _exit(kCrashed);
    if (fault == bank::FAULT_DELAY) AwaitEndOfPatience(*context);
    *charge = journal_->Charge(*request, key);
    if (fault == bank::FAULT_CRASH_AFTER) _exit(kCrashed);
    journal_->End();
    if (fault == bank::FAULT_LOSE_REPLY) context->TryCancel();
    if (fault == bank::FAULT_ERROR_AFTER) return {grpc::StatusCode::INTERNAL, "out of order"};
    return grpc::Status::OK;
  }

  grpc::Status FindCharge(grpc::ServerContext*, const bank::FindChargeRequest* request,
                          bank::Charge* charge) override {
    if (journal_->Find(request->order(), charge)) return grpc::Status::OK;
    return {grpc::StatusCode::NOT_FOUND, "no such order"};
  }

 private:
  // Returns when the caller has given up.
  static void AwaitEndOfPatience(const grpc::ServerContext& context) {
    std::mutex mutex;
    std::condition_variable never;
    std::unique_lock lock(mutex);
    while (!context.IsCancelled()) never.wait_for(lock, std::chrono::milliseconds(10));
  }

  // run.sh starts it again after this.
  static constexpr int kCrashed = 3;

  Journal* const journal_;
};

class Control final : public bank::BankControl::Service {
 public:
  explicit Control(Journal* journal) : journal_(journal) {}

  grpc::Status Prepare(grpc::ServerContext*, const bank::PrepareRequest* request,
                       bank::PrepareResponse*) override {
    journal_->Prepare(*request);
    return grpc::Status::OK;
  }

  grpc::Status GetStatement(grpc::ServerContext*, const bank::GetStatementRequest*,
                            bank::Statement* statement) override {
    journal_->Fill(statement);
    return grpc::Status::OK;
  }

 private:
  Journal* const journal_;
};

}  // namespace

int main(int argc, char** argv) {
  Journal journal(Flag(argc, argv, "journal", "bank.journal"));
  Bank bank(&journal);
  Control control(&journal);
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort(Flag(argc, argv, "listen", "127.0.0.1:7421"),
                           grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(&bank);
  builder.RegisterService(&control);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  Require(server != nullptr, "the bank can listen where --listen says");
  const std::string port_file = Flag(argc, argv, "port_file", "");
  // Whole or not at all: whoever waits for it reads it as soon as it is there.
  if (!port_file.empty()) {
    std::ofstream(port_file + ".new") << port << std::endl;
    std::rename((port_file + ".new").c_str(), port_file.c_str());
  }
  server->Wait();
  return 0;
}
