/* One key, two owners, a resolver, a network and a store that fail: what the protocol promises,
 * checked over every order of events.
 *
 * The network is a set of messages that were sent: any of them may arrive at any time, again and
 * again, or never (loss, duplication, delay, reordering). Replies likewise, but a process that was
 * started again hears no reply to a call of its predecessor. The service executes one message at
 * a time in memory, syncs, and then answers; a crash takes back what is not synced. The lease of
 * the newest token may end at any time. An effect is issued while the lease is live, by the
 * owner's own clock, and lands later, or never (FAILURES 69: what an owner does after its lease is
 * for the downstream system to refuse; it is assumed away here). Resolving as not executed waits
 * until nothing can be in flight any more: the settle time.
 *
 * What must hold is asserted where it could break:
 *   EFFECT        the effect lands once at the most
 *   ACKNOWLEDGED  a completion that was acknowledged stays, whatever crashes; so does a resolution
 *   TOKEN         a token is one attempt's, and is told as a fresh grant once
 *   ATTEMPT       an attempt_id is never granted twice
 *   RELEASED      a released token is not held again
 *   LAPSED        what may have begun is not freed by a lapse
 *
 * Each broken variant is chosen by a macro (check.sh lists them) and must fail.
 */
#define TOKENS 4 /* 0: none; 1 .. 3 are given */
#define OWNERS 2

mtype = { absent, pending, unresolved, complete, freed };
mtype = { none, lapsed, completed, released, marked };

typedef Store {
  mtype state;
  byte token;          /* the newest */
  byte winner;         /* whose completion stands; TOKENS: the resolver's */
  bool started;        /* the newest attempt's call may have begun */
  bool resolved;       /* over its owner's head, and nobody has acquired since */
  byte id[TOKENS];     /* whose attempt a token was; OWNERS: nobody's */
  mtype ended[TOKENS]; /* how it ended */
};

Store mem, disk;
bool dirty;
/* What is to be told once it is synced. */
mtype = { tell_nothing, tell_acquired, tell_held, tell_complete, tell_completed, tell_released,
          tell_dispatched, tell_resolved };
mtype answer = tell_nothing;
byte answer_to, answer_token;

/* The network: sent by owner or token. */
bool sent_reserve[OWNERS], later[OWNERS];
bool sent_dispatch[TOKENS], sent_complete[TOKENS], sent_release[TOKENS], sent_mark[TOKENS];
bool sent_resolve_done[TOKENS], sent_resolve_not[TOKENS];
/* Replies that may be heard. */
byte acquired[OWNERS], held[OWNERS];
bool over[OWNERS], heard_dispatched[TOKENS], heard_released[TOKENS];

/* The world. */
bool live[TOKENS], in_flight[TOKENS], landed[TOKENS];
byte effects;

/* What was ever told. */
bool told_complete[TOKENS], told_released[TOKENS], told_resolved;
byte told_acquired[OWNERS]; /* the token; 0: never */

byte crashes;

inline copy(to, from) {
  to.state = from.state;
  to.token = from.token;
  to.winner = from.winner;
  to.started = from.started;
  to.resolved = from.resolved;
  to.id[1] = from.id[1]; to.id[2] = from.id[2]; to.id[3] = from.id[3];
  to.ended[1] = from.ended[1]; to.ended[2] = from.ended[2]; to.ended[3] = from.ended[3];
}

#define ENDED(i) ((mem.id[1] == i && mem.ended[1] != none) || \
                  (mem.id[2] == i && mem.ended[2] != none) || \
                  (mem.id[3] == i && mem.ended[3] != none))

inline say(what, whom, which) {
  answer = what;
  answer_to = whom;
  answer_token = which;
}

inline grant(i) {
  if
#ifdef TOKEN_REUSED
  :: mem.token > 0 && mem.state == freed -> skip
#endif
  :: else -> mem.token++
  fi;
  mem.state = pending;
  mem.id[mem.token] = i;
  mem.ended[mem.token] = none;
  mem.started = !later[i];
  mem.resolved = false;
  live[mem.token] = true;
  dirty = true;
  say(tell_acquired, i, mem.token);
}

inline reserve(i) {
  if
  :: mem.state == pending && mem.id[mem.token] == i ->
#ifdef HELD_IS_ACQUIRED
     say(tell_acquired, i, mem.token);
#else
     say(tell_held, i, mem.token);
#endif
  :: mem.state == complete -> say(tell_complete, i, mem.token);
#ifdef UNKNOWN_IS_GRANTED
  :: mem.state == unresolved && mem.token + 1 < TOKENS && !ENDED(i) -> grant(i);
#endif
#ifdef IGNORES_ENDED_IDS
  :: (mem.state == absent || mem.state == freed) && mem.token + 1 < TOKENS -> grant(i);
#else
  :: (mem.state == absent || mem.state == freed) && mem.token + 1 < TOKENS && !ENDED(i) -> grant(i);
#endif
  :: else -> skip /* in progress, unresolved or finished: nothing that it may act on */
  fi;
}

#ifdef STALE_TOKEN
#define NEWEST(t) (t <= mem.token)
#else
#define NEWEST(t) (t == mem.token)
#endif

inline complete_it(t) {
  if
  :: mem.state == complete && mem.winner == t -> say(tell_completed, mem.id[t], t);
  :: NEWEST(t) && mem.state != complete && mem.state != absent && mem.ended[t] != released &&
     mem.ended[t] != completed ->
     mem.state = complete;
     mem.winner = t;
     mem.ended[t] = completed;
     live[t] = false;
     dirty = true;
     say(tell_completed, mem.id[t], t);
#ifdef LAST_ANSWER_WINS
  :: mem.state == complete && mem.winner != t ->
     mem.winner = t;
     dirty = true;
     say(tell_completed, mem.id[t], t);
#endif
  :: else -> skip /* stale: evidence */
  fi;
}

inline release(t) {
  if
  :: mem.ended[t] == released -> say(tell_released, mem.id[t], t);
  :: NEWEST(t) && !mem.resolved && mem.state != complete && mem.state != absent &&
     mem.ended[t] != released && mem.ended[t] != marked && mem.ended[t] != completed ->
     mem.state = freed;
     mem.ended[t] = released;
     live[t] = false;
     dirty = true;
     say(tell_released, mem.id[t], t);
  :: else -> skip
  fi;
}

inline mark(t) {
  if
  :: t == mem.token && !mem.resolved && (mem.ended[t] == none || mem.ended[t] == lapsed) &&
     mem.state != complete ->
     mem.state = unresolved;
     mem.started = true;
     mem.ended[t] = marked;
     live[t] = false;
     dirty = true;
  :: else -> skip
  fi;
}

inline dispatch(t) {
  if
  :: t == mem.token && mem.state == pending ->
     if
     :: !mem.started -> mem.started = true; dirty = true
     :: else -> skip
     fi;
     say(tell_dispatched, mem.id[t], t);
#ifdef DISPATCH_AFTER_LAPSE
  :: t <= mem.token && mem.ended[t] == lapsed -> live[t] = true; say(tell_dispatched, mem.id[t], t);
#endif
  :: else -> skip
  fi;
}

inline resolve(t, done) {
  if
  :: mem.state == unresolved && mem.token == t ->
     if
     :: done -> mem.state = complete; mem.winner = TOKENS; say(tell_resolved, 0, t)
     :: else -> mem.state = freed
     fi;
     mem.resolved = true;
     dirty = true;
  :: else -> skip
  fi;
}

/* The reply goes out; who hears it, and when, is the network's affair. */
inline tell() {
  if
  :: answer == tell_acquired ->
#ifndef HELD_IS_ACQUIRED
     assert(told_acquired[answer_to] != answer_token); /* TOKEN: fresh once */
#endif
     assert(told_acquired[answer_to] == 0 || told_acquired[answer_to] == answer_token); /* ATTEMPT */
     assert(told_acquired[1 - answer_to] != answer_token); /* TOKEN */
     told_acquired[answer_to] = answer_token;
     acquired[answer_to] = answer_token;
  :: answer == tell_held ->
     assert(!told_released[answer_token]); /* RELEASED */
     held[answer_to] = answer_token;
  :: answer == tell_complete -> over[answer_to] = true
  :: answer == tell_completed -> told_complete[answer_token] = true; over[answer_to] = true
  :: answer == tell_released ->
     told_released[answer_token] = true;
     heard_released[answer_token] = true;
  :: answer == tell_dispatched -> heard_dispatched[answer_token] = true
  :: answer == tell_resolved -> told_resolved = true
  :: else -> skip
  fi;
  answer = tell_nothing; answer_to = 0; answer_token = 0;
}

/* ACKNOWLEDGED, on what a restart would find. */
inline check_disk() {
  byte t;
  for (t : 1 .. TOKENS - 1) {
    assert(!told_complete[t] || (disk.state == complete && disk.winner == t));
    assert(!told_released[t] || disk.ended[t] == released);
  }
  t = 0;
  assert(!told_resolved || (disk.state == complete && disk.winner == TOKENS));
}

inline sync() {
  copy(disk, mem);
  dirty = false;
  tell();
}

inline executed() {
#ifdef ACKNOWLEDGED_BEFORE_SYNC
  tell();
#else
  if
  :: !dirty -> tell()
  :: else -> skip
  fi;
#endif
}

#define idle (!dirty && answer == tell_nothing)

active proctype Service() {
end:
  do
  :: atomic { idle && sent_reserve[0] -> reserve(0); executed() }
  :: atomic { idle && sent_reserve[1] -> reserve(1); executed() }
  :: atomic { idle && sent_dispatch[1] -> dispatch(1); executed() }
  :: atomic { idle && sent_dispatch[2] -> dispatch(2); executed() }
  :: atomic { idle && sent_dispatch[3] -> dispatch(3); executed() }
  :: atomic { idle && sent_complete[1] -> complete_it(1); executed() }
  :: atomic { idle && sent_complete[2] -> complete_it(2); executed() }
  :: atomic { idle && sent_complete[3] -> complete_it(3); executed() }
  :: atomic { idle && sent_release[1] -> release(1); executed() }
  :: atomic { idle && sent_release[2] -> release(2); executed() }
  :: atomic { idle && sent_release[3] -> release(3); executed() }
  :: atomic { idle && sent_mark[1] -> mark(1); executed() }
  :: atomic { idle && sent_mark[2] -> mark(2); executed() }
  :: atomic { idle && sent_mark[3] -> mark(3); executed() }
  :: atomic { idle && sent_resolve_done[1] -> resolve(1, true); executed() }
  :: atomic { idle && sent_resolve_done[2] -> resolve(2, true); executed() }
  :: atomic { idle && sent_resolve_done[3] -> resolve(3, true); executed() }
  :: atomic { idle && sent_resolve_not[1] -> resolve(1, false); executed() }
  :: atomic { idle && sent_resolve_not[2] -> resolve(2, false); executed() }
  :: atomic { idle && sent_resolve_not[3] -> resolve(3, false); executed() }
     /* The lease of the newest token ends: derived from time, and durable as such. */
  :: atomic { idle && mem.state == pending ->
       live[mem.token] = false;
       mem.ended[mem.token] = lapsed;
       if
#ifdef LAPSE_FREES
       :: true -> mem.state = freed
#else
       :: mem.started -> mem.state = unresolved
       :: !mem.started -> mem.state = freed
#endif
       fi;
       assert(!(mem.state == freed && mem.started)); /* LAPSED */
       copy(disk, mem) }
     /* What waits for a sync is synced, or lost. */
  :: d_step { dirty -> sync(); check_disk() }
  :: d_step { dirty && crashes < 2 ->
       crashes++;
       /* A lease that was never given is nobody's. */
       if
       :: mem.token != disk.token -> live[mem.token] = false
       :: else -> skip
       fi;
       copy(mem, disk);
       dirty = false;
       answer = tell_nothing; answer_to = 0; answer_token = 0;
       check_disk() }
  od
}

/* An effect that was issued happens once, or never. */
active proctype World() {
  byte t;
end:
  do
  :: d_step { in_flight[1] -> in_flight[1] = false; landed[1] = true; effects++; assert(effects <= 1) }
  :: d_step { in_flight[2] -> in_flight[2] = false; landed[2] = true; effects++; assert(effects <= 1) }
  :: d_step { in_flight[3] -> in_flight[3] = false; landed[3] = true; effects++; assert(effects <= 1) }
  :: d_step { in_flight[1] -> in_flight[1] = false }
  :: d_step { in_flight[2] -> in_flight[2] = false }
  :: d_step { in_flight[3] -> in_flight[3] = false }
  od
}

proctype Owner(byte me) {
  byte token = 0;
  bool again = false; /* it was started again, and remembers its attempt_id only */

asks:
  sent_reserve[me] = true;
  do
  :: atomic { acquired[me] != 0 -> token = acquired[me]; goto may_begin }
  :: atomic { held[me] != 0 && !again -> token = held[me]; goto may_begin }
     /* It cannot know whether it had begun: that is what is told. */
  :: atomic { held[me] != 0 && again -> sent_mark[held[me]] = true; goto stops }
  :: over[me] -> goto stops
  :: !again -> goto dies
  od;

may_begin:
  if
  :: later[me] ->
     sent_dispatch[token] = true;
     if
     :: heard_dispatched[token] -> skip
     :: sent_release[token] = true; goto stops
     :: !again -> goto dies
     fi
  :: else -> skip
  fi;
  if
     /* Its own clock is on the safe side of the service's. */
  :: atomic { live[token] -> in_flight[token] = true; goto has_begun }
  :: sent_release[token] = true; goto stops
  :: !again -> goto dies
  fi;

has_begun:
  if
  :: landed[token] -> sent_complete[token] = true; goto stops
  :: sent_mark[token] = true; goto stops /* it timed out */
  :: !again -> goto dies
  fi;

dies:
  atomic {
    again = true;
    token = 0;
    acquired[me] = 0;
    held[me] = 0;
    over[me] = false;
  }
  goto asks;

stops:
  skip
}

/* Looks downstream, and says what it has seen. */
active proctype Resolver() {
  byte seen;
end:
  do
  :: d_step { disk.state == unresolved && effects > 0 ->
       sent_resolve_done[disk.token] = true }
#ifdef RESOLVED_BEFORE_SETTLED
  :: d_step { disk.state == unresolved && effects == 0 ->
#else
  :: d_step { disk.state == unresolved && effects == 0 && !in_flight[1] && !in_flight[2] &&
              !in_flight[3] ->
#endif
       sent_resolve_not[disk.token] = true }
  od
}

init {
  atomic {
    mem.state = absent; disk.state = absent;
    mem.id[1] = OWNERS; mem.id[2] = OWNERS; mem.id[3] = OWNERS;
    mem.ended[1] = none; mem.ended[2] = none; mem.ended[3] = none;
    copy(disk, mem);
    if :: later[0] = true :: later[0] = false fi;
    if :: later[1] = true :: later[1] = false fi;
    run Owner(0);
    run Owner(1)
  }
}
