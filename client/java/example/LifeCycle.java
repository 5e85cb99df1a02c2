import com.google.gson.Gson;
import com.google.gson.reflect.TypeToken;
import com.google.protobuf.ByteString;
import dev.idempotencyd.v1.BatchRequest;
import dev.idempotencyd.v1.CachedResponse;
import dev.idempotencyd.v1.Command;
import dev.idempotencyd.v1.CompleteRequest;
import dev.idempotencyd.v1.Fingerprint;
import dev.idempotencyd.v1.IdempotencyAdminServiceGrpc;
import dev.idempotencyd.v1.IdempotencyServiceGrpc;
import dev.idempotencyd.v1.Lease;
import dev.idempotencyd.v1.ListOperationsRequest;
import dev.idempotencyd.v1.ListOperationsResponse;
import dev.idempotencyd.v1.MarkUnresolvedRequest;
import dev.idempotencyd.v1.NextStep;
import dev.idempotencyd.v1.OperationId;
import dev.idempotencyd.v1.OperationState;
import dev.idempotencyd.v1.ReleaseRequest;
import dev.idempotencyd.v1.RenewRequest;
import dev.idempotencyd.v1.ReserveOutcome;
import dev.idempotencyd.v1.ReserveRequest;
import dev.idempotencyd.v1.ReserveResponse;
import dev.idempotencyd.v1.ResolveOperationRequest;
import dev.idempotencyd.v1.Result;
import dev.idempotencyd.v1.UnresolvedCause;
import dev.idempotencyd.v1.Verdict;
import io.grpc.ManagedChannel;
import io.grpc.ManagedChannelBuilder;
import io.grpc.Metadata;
import io.grpc.StatusRuntimeException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.security.SecureRandom;
import java.util.HexFormat;
import java.util.Map;
import java.util.concurrent.TimeUnit;

/**
 * The whole life cycle of operations with the generated code alone: what a client of your own does.
 *
 * <pre>java LifeCycle 127.0.0.1:7420 client/service_config.json</pre>
 *
 * <p>It needs the right to do everything, as resolving is an operator's or a reconciler's work.
 */
public final class LifeCycle {
  private static final Metadata.Key<String> REASON =
      Metadata.Key.of("idempotency-reason", Metadata.ASCII_STRING_MARSHALLER);

  private final IdempotencyServiceGrpc.IdempotencyServiceBlockingStub api;
  private final IdempotencyAdminServiceGrpc.IdempotencyAdminServiceBlockingStub admin;

  private LifeCycle(ManagedChannel channel) {
    // A deadline for all that follows; in life, one for each call.
    api = IdempotencyServiceGrpc.newBlockingStub(channel).withDeadlineAfter(1, TimeUnit.MINUTES);
    admin =
        IdempotencyAdminServiceGrpc.newBlockingStub(channel).withDeadlineAfter(1, TimeUnit.MINUTES);
  }

  /** Ends the program where what it says does not hold. */
  private static void check(boolean holds, String what) {
    if (!holds) throw new AssertionError("not so: " + what);
  }

  /**
   * For keys and attempt ids: 128 random bits. A key is made and saved before the first try; an
   * attempt id lives in memory, for one attempt.
   */
  private static String randomId() {
    byte[] id = new byte[16];
    new SecureRandom().nextBytes(id);
    return HexFormat.of().formatHex(id);
  }

  private static OperationId operation() {
    return OperationId.newBuilder()
        .setNamespace("payments").setScope("acct_1").setKey(randomId()).build();
  }

  /** In life the fingerprint is made as tests/vectors/fingerprints.json shows. */
  private static ReserveRequest request(OperationId id, String attemptId) throws Exception {
    byte[] digest = MessageDigest.getInstance("SHA-256").digest("charge 100".getBytes("UTF-8"));
    return ReserveRequest.newBuilder()
        .setId(id)
        .setAttemptId(attemptId)
        .setFingerprint(
            Fingerprint.newBuilder()
                .setAlgorithm("sha256/example-1").setDigest(ByteString.copyFrom(digest)))
        .build();
  }

  private Lease acquire(OperationId id) throws Exception {
    ReserveResponse response = api.reserve(request(id, randomId()));
    check(response.getNextStep() == NextStep.NEXT_STEP_PROCEED, "it may proceed");
    return response.getLease();
  }

  /** The effect happened, and its answer is replayed. */
  private void completed() throws Exception {
    OperationId id = operation();
    String attemptId = randomId();
    Lease lease = api.reserve(request(id, attemptId)).getLease();
    ReserveResponse again = api.reserve(request(id, attemptId)); // as if the answer had been lost
    check(again.getOutcome() == ReserveOutcome.RESERVE_OUTCOME_ALREADY_HELD, "it holds it");
    check(again.getLease().getFencingToken() == lease.getFencingToken(), "the same token");

    RenewRequest renew =
        RenewRequest.newBuilder()
            .setId(id).setFencingToken(lease.getFencingToken()).setDispatched(true).build();
    check(api.renew(renew).getLease().getAttempt() == 1, "the first attempt");

    ByteString body = ByteString.copyFrom(new byte[] {0, (byte) 0xff, (byte) 0x80});
    CompleteRequest complete =
        CompleteRequest.newBuilder()
            .setId(id)
            .setFencingToken(lease.getFencingToken())
            .setVerdict(Verdict.VERDICT_SUCCEEDED)
            .setResponse(CachedResponse.newBuilder().setHttpStatus(201).setBody(body))
            .build();
    check(!api.complete(complete).getAlreadyComplete(), "it is new");
    check(api.complete(complete).getAlreadyComplete(), "a repeat is one");

    ReserveResponse replayed = api.reserve(request(id, randomId()));
    check(replayed.getNextStep() == NextStep.NEXT_STEP_USE_RESPONSE, "it is replayed");
    check(replayed.getOperation().getResponse().getBody().equals(body), "byte for byte");
  }

  /** Nobody knows, until somebody has found out. */
  private void unresolved() throws Exception {
    OperationId id = operation();
    MarkUnresolvedRequest mark =
        MarkUnresolvedRequest.newBuilder()
            .setId(id)
            .setFencingToken(acquire(id).getFencingToken())
            .setCause(UnresolvedCause.UNRESOLVED_CAUSE_TIMEOUT)
            .build();
    NextStep next = api.markUnresolved(mark).getNextStep();
    check(next == NextStep.NEXT_STEP_RECONCILE_FIRST, "reconcile");
    ReserveResponse stopped = api.reserve(request(id, randomId()));
    check(stopped.getNextStep() == NextStep.NEXT_STEP_RECONCILE_FIRST, "nobody starts");

    ListOperationsResponse listed =
        admin.listOperations(
            ListOperationsRequest.newBuilder()
                .setNamespace(id.getNamespace())
                .setKeyPrefix(id.getKey())
                .addStates(OperationState.OPERATION_STATE_UNRESOLVED)
                .build());
    check(listed.getOperationsCount() == 1, "it is listed");
    CachedResponse found =
        CachedResponse.newBuilder().setBody(ByteString.copyFromUtf8("found")).build();
    admin.resolveOperation(
        ResolveOperationRequest.newBuilder()
            .setId(id)
            .setEtag(listed.getOperations(0).getEtag())
            .setActor("lifecycle")
            .setReason("the provider has it")
            .setCompleted(
                ResolveOperationRequest.Completed.newBuilder()
                    .setVerdict(Verdict.VERDICT_SUCCEEDED).setResponse(found))
            .build());
    ReserveResponse settled = api.reserve(request(id, randomId()));
    check(settled.getOperation().getResponse().getBody().equals(found.getBody()), "settled");
  }

  /** This attempt did nothing, and another may. */
  private void released() throws Exception {
    OperationId id = operation();
    long token = acquire(id).getFencingToken();
    api.release(ReleaseRequest.newBuilder().setId(id).setFencingToken(token).build());
    check(acquire(id).getFencingToken() > token, "a higher token");
    try {
      api.renew(RenewRequest.newBuilder().setId(id).setFencingToken(token).build());
      check(false, "who was superseded cannot renew");
    } catch (StatusRuntimeException error) {
      // Why a call was refused is also in a plain trailer.
      check("STALE_FENCING_TOKEN".equals(error.getTrailers().get(REASON)), "stale");
    }
  }

  /** Many commands in one call, answered in their order. */
  private void batched() throws Exception {
    BatchRequest.Builder batch = BatchRequest.newBuilder();
    for (int i = 0; i < 10; ++i) {
      batch.addCommands(Command.newBuilder().setReserve(request(operation(), randomId())));
    }
    for (Result result : api.batch(batch.build()).getResultsList()) {
      NextStep next = result.getReserve().getNextStep();
      check(next == NextStep.NEXT_STEP_PROCEED, "each is acquired");
    }
  }

  /** As a channel takes it: gson makes every number of a JSON object a Double. */
  private static Map<String, Object> serviceConfig(String path) throws Exception {
    return new Gson()
        .fromJson(
            Files.readString(Path.of(path)), new TypeToken<Map<String, Object>>() {}.getType());
  }

  /** args: the target, and client/service_config.json, without which nothing is repeated. */
  public static void main(String[] args) throws Exception {
    ManagedChannelBuilder<?> builder = ManagedChannelBuilder.forTarget(args[0]).usePlaintext();
    if (args.length > 1) builder.defaultServiceConfig(serviceConfig(args[1])).enableRetry();
    ManagedChannel channel = builder.build(); // throws where it does not understand the config
    try {
      LifeCycle lifeCycle = new LifeCycle(channel);
      lifeCycle.completed();
      lifeCycle.unresolved();
      lifeCycle.released();
      lifeCycle.batched();
    } finally {
      channel.shutdownNow().awaitTermination(10, TimeUnit.SECONDS);
    }
    System.out.println("completed, unresolved and settled, released, batched: all as it should be");
  }
}
