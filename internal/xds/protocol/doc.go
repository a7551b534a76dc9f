// Package protocol is the state machine of one stream of the aggregated discovery service: what the client subscribes to, what it
// holds, what is on the way to it, and what is to be sent next. It takes requests and views of the library, and gives responses.
//
// It is pure: no locks, no clocks, no input or output. Who owns a machine calls it from one goroutine at a time, and with views of
// one library, under that library's lock. Where the protocol's page asks for something, the branch that does it quotes the sentence.
//
//   - machine.go is the state and what changes it; subscription.go what a request asks for; ack.go and nack.go what it answers;
//   - plan.go decides what is sent next; gate.go what has to wait for what; members.go and encode.go what a response is made of;
//   - first_cache.go and shared.go are what the machines of one server have in common, and the only parts with a lock;
//   - audit.go compares what a machine believes that its client holds with what the client is to hold.
//
// It must not know proxies, connections or limits of time.
package protocol
