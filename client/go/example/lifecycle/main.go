// The whole life cycle of operations with the generated code alone: what a client of your own does.
//
//	lifecycle -target=127.0.0.1:7420 -service_config=../service_config.json
//
// It needs the right to do everything, as resolving is an operator's or a reconciler's work.
package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"flag"
	"fmt"
	"log"
	"os"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	pb "idempotencyd.dev/go/idempotency/v1"
)

var (
	target        = flag.String("target", "127.0.0.1:7420", "where the service is")
	serviceConfig = flag.String("service_config", "", "client/service_config.json; empty: none")
)

// check ends the program where what it says does not hold.
func check(holds bool, format string, args ...interface{}) {
	if !holds {
		log.Fatalf("not so: "+format, args...)
	}
}

func must(err error, what string) {
	check(err == nil, "%s works: %v", what, err)
}

// randomID is for keys and attempt ids: 128 random bits. A key is made and saved before the first try;
// an attempt id lives in memory, for one attempt.
func randomID() string {
	var id [16]byte
	_, err := rand.Read(id[:])
	must(err, "randomness")
	return hex.EncodeToString(id[:])
}

type caller struct {
	ctx   context.Context
	api   pb.IdempotencyServiceClient
	admin pb.IdempotencyAdminServiceClient
}

func operation() *pb.OperationId {
	return &pb.OperationId{Namespace: "payments", Scope: "acct_1", Key: randomID()}
}

// request is what a Reserve of this program asks for. In life the fingerprint is made as
// tests/vectors/fingerprints.json shows.
func request(id *pb.OperationId, attemptID string) *pb.ReserveRequest {
	digest := sha256.Sum256([]byte("charge 100"))
	return &pb.ReserveRequest{
		Id:          id,
		AttemptId:   attemptID,
		Fingerprint: &pb.Fingerprint{Algorithm: "sha256/example-1", Digest: digest[:]},
	}
}

func (c caller) reserve(id *pb.OperationId, attemptID string) *pb.ReserveResponse {
	response, err := c.api.Reserve(c.ctx, request(id, attemptID))
	must(err, "Reserve")
	return response
}

func (c caller) acquire(id *pb.OperationId) *pb.Lease {
	response := c.reserve(id, randomID())
	check(response.NextStep == pb.NextStep_NEXT_STEP_PROCEED, "it may proceed: %v", response)
	return response.Lease
}

// completed: the effect happened, and its answer is replayed.
func (c caller) completed() {
	id, attemptID := operation(), randomID()
	lease := c.reserve(id, attemptID).Lease
	again := c.reserve(id, attemptID) // as if the answer had been lost
	check(again.Outcome == pb.ReserveOutcome_RESERVE_OUTCOME_ALREADY_HELD, "it holds it: %v", again)
	check(again.Lease.FencingToken == lease.FencingToken, "the same token: %v", again)

	renewed, err := c.api.Renew(c.ctx, &pb.RenewRequest{
		Id: id, FencingToken: lease.FencingToken, Dispatched: true, Progress: []byte("sent"),
	})
	must(err, "Renew")
	check(renewed.Lease.Attempt == 1, "the first attempt: %v", renewed)

	body := []byte{0x00, 0xff, 0x80}
	complete := &pb.CompleteRequest{
		Id: id, FencingToken: lease.FencingToken, Verdict: pb.Verdict_VERDICT_SUCCEEDED,
		Response: &pb.CachedResponse{
			Status: &pb.CachedResponse_HttpStatus{HttpStatus: 201}, Body: body,
		},
	}
	for _, repeated := range []bool{false, true} {
		done, err := c.api.Complete(c.ctx, complete)
		must(err, "Complete")
		check(done.AlreadyComplete == repeated, "a repeat is one: %v", done)
	}
	replayed := c.reserve(id, randomID())
	check(replayed.NextStep == pb.NextStep_NEXT_STEP_USE_RESPONSE, "it is replayed: %v", replayed)
	answer := replayed.Operation.Response
	check(bytes.Equal(answer.Body, body) && answer.GetHttpStatus() == 201, "byte for byte: %v", answer)
}

// unresolved: nobody knows, until somebody has found out.
func (c caller) unresolved() {
	id := operation()
	lease := c.acquire(id)
	marked, err := c.api.MarkUnresolved(c.ctx, &pb.MarkUnresolvedRequest{
		Id: id, FencingToken: lease.FencingToken, Cause: pb.UnresolvedCause_UNRESOLVED_CAUSE_TIMEOUT,
	})
	must(err, "MarkUnresolved")
	check(marked.NextStep == pb.NextStep_NEXT_STEP_RECONCILE_FIRST, "reconcile: %v", marked)
	stopped := c.reserve(id, randomID())
	check(stopped.NextStep == pb.NextStep_NEXT_STEP_RECONCILE_FIRST, "nobody starts: %v", stopped)

	listed, err := c.admin.ListOperations(c.ctx, &pb.ListOperationsRequest{
		Namespace: id.Namespace, KeyPrefix: id.Key,
		States: []pb.OperationState{pb.OperationState_OPERATION_STATE_UNRESOLVED},
	})
	must(err, "ListOperations")
	check(len(listed.Operations) == 1, "it is listed: %v", listed)
	_, err = c.admin.ResolveOperation(c.ctx, &pb.ResolveOperationRequest{
		Id: id, Etag: listed.Operations[0].Etag, Actor: "lifecycle", Reason: "the provider has it",
		Resolution: &pb.ResolveOperationRequest_Completed_{
			Completed: &pb.ResolveOperationRequest_Completed{
				Verdict:  pb.Verdict_VERDICT_SUCCEEDED,
				Response: &pb.CachedResponse{Body: []byte("found")},
			},
		},
	})
	must(err, "ResolveOperation")
	settled := c.reserve(id, randomID())
	check(string(settled.GetOperation().GetResponse().GetBody()) == "found", "settled: %v", settled)
}

// released: this attempt did nothing, and another may.
func (c caller) released() {
	id := operation()
	lease := c.acquire(id)
	_, err := c.api.Release(c.ctx, &pb.ReleaseRequest{Id: id, FencingToken: lease.FencingToken})
	must(err, "Release")
	next := c.acquire(id)
	check(next.FencingToken > lease.FencingToken, "a higher token: %v", next)

	// Why a call was refused is also in a plain trailer.
	var trailer metadata.MD
	late := &pb.RenewRequest{Id: id, FencingToken: lease.FencingToken}
	_, err = c.api.Renew(c.ctx, late, grpc.Trailer(&trailer))
	reason := trailer.Get("idempotency-reason")
	check(err != nil && len(reason) == 1 && reason[0] == "STALE_FENCING_TOKEN", "stale: %v", trailer)
}

// pipelined: many commands in flight on one stream.
func (c caller) pipelined() {
	stream, err := c.api.Pipeline(c.ctx)
	must(err, "Pipeline")
	const commands = 10
	message := &pb.PipelineRequest{}
	for tag := uint64(1); tag <= commands; tag++ {
		message.Commands = append(message.Commands, &pb.Command{
			Tag: tag, Command: &pb.Command_Reserve{Reserve: request(operation(), randomID())},
		})
	}
	must(stream.Send(message), "Send")
	must(stream.CloseSend(), "CloseSend")
	acquired := map[uint64]bool{}
	for len(acquired) < commands {
		results, err := stream.Recv()
		must(err, "Recv")
		for _, result := range results.Results {
			next := result.GetReserve().GetNextStep()
			check(next == pb.NextStep_NEXT_STEP_PROCEED, "each is acquired: %v", result)
			acquired[result.Tag] = true
		}
	}
}

func main() {
	flag.Parse()
	options := []grpc.DialOption{grpc.WithInsecure()}
	if *serviceConfig != "" {
		config, err := os.ReadFile(*serviceConfig)
		must(err, "reading the service config")
		options = append(options, grpc.WithDefaultServiceConfig(string(config)))
	}
	connection, err := grpc.Dial(*target, options...)
	must(err, "Dial")
	defer connection.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	c := caller{ctx, pb.NewIdempotencyServiceClient(connection), pb.NewIdempotencyAdminServiceClient(connection)}
	c.completed()
	c.unresolved()
	c.released()
	c.pipelined()
	fmt.Println("completed, unresolved and settled, released, pipelined: all as it should be")
}
