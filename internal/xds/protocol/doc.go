// Package protocol is the state machine of one stream of the aggregated discovery service. The state is the client's subscriptions,
// the resources that it holds, the responses on the way to it, and the resources to send next. The machine takes requests and views
// of the library, and returns responses.
//
// It is pure: no locks, no clocks, no input or output. The owner of a machine calls it from one goroutine at a time, and with views
// of one library, under that library's lock. If the protocol's page demands something, the branch that does it quotes the sentence.
//
//   - machine.go is the state and what changes it; subscription.go what a request asks for; ack.go and nack.go what it answers;
//   - plan.go decides what is sent next; gate.go what has to wait for what; members.go and encode.go what a response is made of;
//   - first_cache.go and shared.go are what the machines of one server have in common, and the only parts with a lock;
//   - audit.go compares what a machine believes that its client holds with what the client is to hold.
//
// It must not know proxies, connections or limits of time.
package protocol
