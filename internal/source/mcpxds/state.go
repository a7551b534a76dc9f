package mcpxds

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	mcp "istio.io/api/mcp/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"fairway/internal/config"
	"fairway/internal/mcpwire"
	"fairway/internal/mesh"
	"fairway/internal/printable"
	"fairway/internal/source"
	"fairway/internal/source/budget"
	"fairway/internal/source/mcp/resource"
	"fairway/internal/source/platform"
)

// state holds the objects of a server, over all its streams. It belongs to the goroutine that reads.
type state struct {
	reader  *resource.Reader
	opts    Options
	kinds   []*kind
	objects int
	synced  bool
	account *budget.Account
	out     *platform.Outbox // knows the reported problems
	again   time.Time        // before that a stream does not end because there is room
}

// kind holds the objects of one kind.
type kind struct {
	config.API
	types    []string // names that the server may know it by, the preferred one first
	version  int      // of types, that is asked for
	answered bool     // on this stream, or before everything was there
	objects  map[string]object
	names    map[config.Key]string // the name that each object is held under
	costs    *budget.Ledger[string]
}

// object is an object that was taken.
type object struct {
	key     config.Key
	version string
	sum     uint64 // of the bytes
}

func newState(r *resource.Reader, o Options, to *platform.Outbox) *state {
	bounds := budget.Default()
	bounds.Bytes, bounds.Things = cmp.Or(o.MaxBytes, bounds.Bytes), o.MaxObjects
	out := &state{
		reader: r, opts: o, account: budget.NewAccount(o.where(), bounds, "subscribe to less, or raise maxObjects or maxBytes"), out: to,
	}
	to.Name, to.Account = o.where(), out.account
	for _, api := range config.APIs() {
		if o.Services && api.Kind != config.ServiceEntry {
			continue
		}
		if !o.MCP {
			out.add(api, api.Types()...)
			continue
		}
		if !o.Services {
			out.add(api, mcpwire.Collection(api.Group, api.Versions[len(api.Versions)-1], string(api.Kind)))
		}
		if api.Kind == config.ServiceEntry {
			out.add(api, mcpwire.SyntheticEntries)
		}
	}
	return out
}

// add adds a kind to ask for.
func (s *state) add(api config.API, types ...string) {
	s.kinds = append(s.kinds, &kind{
		API: api, types: types, objects: map[string]object{}, names: map[config.Key]string{},
		costs: budget.NewLedger[string](s.account),
	})
}

func (k *kind) typ() string { return k.types[k.version] }

// older switches a kind to a less preferred version; false: there is none.
func (k *kind) older() bool {
	if len(k.objects) > 0 || k.version+1 >= len(k.types) {
		return false
	}
	k.version++
	return true
}

// versions returns the versions of the held objects, by name.
func (k *kind) versions() map[string]string {
	out := make(map[string]string, len(k.objects))
	for name, h := range k.objects {
		out[name] = h.version
	}
	return out
}

// begin is called with each stream: one that was interrupted before everything was there starts anew.
func (s *state) begin() {
	s.out.Recount()
	for _, k := range s.kinds {
		k.costs.Begin()
		k.answered = s.synced
		if !s.synced {
			k.version = 0
		}
	}
}

// answered reports whether the server has said something of each kind.
func (s *state) answered() bool {
	return !slices.ContainsFunc(s.kinds, func(k *kind) bool { return !k.answered })
}

// of finds a kind by its type; nil: it is not asked for.
func (s *state) of(typ string) *kind {
	for _, k := range s.kinds {
		if slices.Contains(k.types, typ) {
			return k
		}
	}
	return nil
}

// counts reports whether an answer about one of the kind's types counts. Once objects are held, only answers of their type do; until
// then, the type of the last answer with objects counts, however late that comes.
func (k *kind) counts(a *answer) bool {
	at := slices.Index(k.types, a.typ)
	if at != k.version && len(k.objects) == 0 && len(a.resources) > 0 {
		k.version = at
	}
	return at == k.version
}

// maxRefused is how many names of refused objects are sent to a server, with the reason of each.
const maxRefused = 20

// maxVersion is how many bytes of a version are remembered. Those that are longer are not.
const maxVersion = 1 << 10

// take brings a kind up to date. It returns the changed rows, the problems by place, and the words that refuse a part of the
// answer.
func (s *state) take(k *kind, a *answer) (shards []source.Shard, problems map[string][]mesh.Problem, refused string) {
	out := result{kind: k, by: s.out, problems: map[string][]mesh.Problem{}}
	list, there, unnamed := s.names(&out, a)
	for _, name := range a.removed {
		s.remove(&out, name)
	}
	if a.whole && !unnamed { // else what has no name may be any that is held
		for _, name := range out.without(there) {
			s.remove(&out, name)
		}
	}
	for _, r := range list {
		s.resource(&out, r)
	}
	shards = out.shards()
	if out.more > 0 {
		out.refused = append(out.refused, fmt.Sprintf("and %d more", out.more))
	}
	return shards, out.problems, strings.Join(out.refused, "; ")
}

// names finds out the names of the resources of an answer. Resources without a valid name are only refused.
func (s *state) names(out *result, a *answer) (list []item, there map[string]bool, unnamed bool) {
	there = make(map[string]bool, len(a.resources))
	for _, r := range a.resources {
		var err error
		if r.name == "" { // a whole state says names inside
			var m *mcp.Resource
			m, err = unpack(r.any) // which is unpacked again once it is read: all of them at once are too much
			r.name, r.version = m.GetMetadata().GetName(), m.GetMetadata().GetVersion()
		}
		if len(r.version) > maxVersion {
			r.version = "" // nobody's: it is told anew after a break
		}
		switch {
		case r.name == "" || len(r.name) > resource.MaxName:
			unnamed = true
			out.addRefusal(func() string {
				return fmt.Sprintf("%q: that is not a name: %v", printable.Text(r.name, printable.Short), err)
			})
		case s.opts.Services && !strings.HasPrefix(r.name[strings.LastIndexByte(r.name, '/')+1:], resource.Synthetic):
		default:
			there[r.name] = true
			list = append(list, r)
		}
	}
	return list, there, unnamed
}

// Estimated charges in bytes: a byte of an object on the wire takes several, and the rows of ports and endpoints take more.
const (
	decoded       = 4
	portBytes     = 500
	endpointBytes = 2200
)

// cost returns the charge for an object; o: nil if it has not been decoded.
func cost(name string, m *mcp.Resource, o *config.Object) budget.Cost {
	c := budget.Cost{Things: 1, Bytes: int64(1000 + 2*len(name) + decoded*len(m.GetBody().GetValue()))}
	if o == nil {
		return c
	}
	c.Bytes += int64(len(o.Labels))
	for key, value := range o.Annotations {
		c.Bytes += int64(len(key) + len(value))
	}
	if entry, is := o.Spec.(*networking.ServiceEntry); is {
		c.Ports = max(1, len(entry.GetHosts())) * len(entry.GetPorts())
		c.Endpoints = len(entry.GetEndpoints())
		c.Bytes += int64(c.Ports*portBytes + c.Endpoints*endpointBytes)
	}
	return c
}

// betweenReads is how long it takes at least from one stream to the next that is made because there may be room again.
const betweenReads = 30 * time.Second

// room reports whether everything is to be sent again, because there may be room for objects that were left out.
func (s *state) room(now time.Time) bool {
	if now.Before(s.again) || !s.account.Room() {
		return false
	}
	s.again = now.Add(betweenReads)
	return true
}

// unpack reads the message of a resource.
func unpack(packed *anypb.Any) (*mcp.Resource, error) {
	m := &mcp.Resource{}
	if !packed.MessageIs(m) {
		return m, fmt.Errorf("it is a %q; want istio.mcp.v1alpha1.Resource", printable.Text(packed.GetTypeUrl(), printable.Short))
	}
	if err := (proto.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(packed.GetValue(), m); err != nil {
		return &mcp.Resource{}, fmt.Errorf("it is not an istio.mcp.v1alpha1.Resource: %w", err)
	}
	return m, nil
}
