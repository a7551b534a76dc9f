package intercept

import "net/netip"

// Family is one of the two versions of the Internet protocol.
type Family string

// The families.
const (
	IPv4 Family = "ip"
	IPv6 Family = "ip6"
)

// Stage is a point on a packet's way that can have rules: a table and a hook in it.
type Stage struct {
	Table string // raw (before connection tracking), mangle (before routing), nat (a connection's first packet)
	Hook  string // prerouting, output
}

// Ruleset is all rules of one family.
type Ruleset struct {
	Family Family
	Chains []Chain
}

// Chain is a list of rules; the first that decides ends it. A packet that no rule decides on goes on as if the chain did not exist.
type Chain struct {
	Stage Stage
	Name  string // as iptables names it; unique in a table
	Proto Proto  // only these packets of the stage come here; empty: all
	Rules []Rule
}

// Proto is a transport protocol that rules match.
type Proto string

// The protocols.
const (
	TCP Proto = "tcp"
	UDP Proto = "udp"
)

// State is the connection-tracking state of a packet.
type State string

// The states that rules match.
const (
	Established State = "established" // of a connection that was answered, or related to one
	Invalid     State = "invalid"     // of none
)

// Rule matches packets by all of its fields that are set, and does one thing to them.
type Rule struct {
	Source           netip.Prefix
	Dest             netip.Prefix
	NotDest          bool
	In, Out          string // interface; a + at the end matches every name that begins so
	Proto            Proto
	SourcePort, Port uint16
	NotPort          bool
	Mark, ConnMark   *Number
	Owners           []Owner
	State            State
	Do               Action
}

// Number is a value, or all others.
type Number struct {
	Value uint32
	Not   bool
}

// Owner matches packets that a process of a user, or of a group, sends.
type Owner struct {
	Group bool
	ID    uint32
	Not   bool
}

// Verb is the kind of an action.
type Verb int

// The verbs. Return, Drop and RedirectTo end the chain for a packet; after the others the next rule follows.
const (
	Return      Verb = iota
	Drop             // the packet is gone
	RedirectTo       // to Value, a port of this machine
	TProxyTo         // to the transparent socket on port Value, with mark Mark
	SetMark          // the packet's mark to Value
	SaveMark         // copies the packet's mark to the connection
	RestoreMark      // copies the connection's mark to the packet
	SetZone          // keeps connections of zone Value apart from others of the same addresses
)

// Action is a verb and its arguments.
type Action struct {
	Verb  Verb
	Value uint32
	Mark  uint32
}
