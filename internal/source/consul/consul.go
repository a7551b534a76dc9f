package consul

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/hashicorp/consul/api"

	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
	"fairway/internal/printable"
	"fairway/internal/servers"
	"fairway/internal/source"
	"fairway/internal/source/budget"
	"fairway/internal/source/platform"
)

// Source reads one datacenter of a Consul.
type Source struct {
	name string
	o    Options
	log  *slog.Logger
	tr   *platform.Translator
	out  platform.Outbox
	line *line

	reads    chan struct{} // has room for as many answers as are read at once
	searches chan struct{} // has one where services that nobody waits for may have changed
	workers  sync.WaitGroup

	mu        sync.Mutex
	ctx       context.Context // of Run
	services  map[string]*service
	queue     queue
	strange   map[string]bool   // names that no host can be made of
	protocols map[string]string // of service-defaults
	most      int               // services that are waited for at once
	held      int               // that are
	account   *budget.Account
	ledger    *budget.Ledger[string] // what services cost, and names that no host can be made of
	again     time.Time              // when services that were left out are read again at the earliest
	unread    int                    // services of which nothing has been read yet
	listed    bool                   // the names have been read
	synced    bool
	batch     []source.Shard // gathered until all has been read
	keep      time.Time      // until when what Consul lost still counts; zero: it lost nothing
	states    bool           // checks that fail are followed
}

// service is one name.
type service struct {
	name    string
	index   uint64 // of the last answer; 0: there was none, or it does not count
	ids     map[uint64]bool
	handed  bool // there are rows of it
	told    bool // there are problems of it
	over    bool // what was read last is left out: there is no room for it
	read    bool
	bad     int  // answers in a row that could not be read
	kept    bool // what was read is not handed on while keep lasts
	proxies bool // nothing but proxies and gateways has the name
	changed time.Time
	stop    context.CancelFunc // of who waits for it; nil: nobody does
	ctx     context.Context    // of who waits for it
	awaited bool               // it is waited for once it has been read
	queued  bool               // it is to be read
	look    bool               // and first to be looked at, whether it has changed
	hot     bool               // it has changed, and is waited for once it has been read
}

const readers = 16 // services that are asked for at once, and answers that are read at once

// New returns the source of a registry. The options must be valid.
func New(name string, o Options, log *slog.Logger) (*Source, error) {
	s := &Source{
		name: name, o: o, log: log, tr: platform.NewTranslator(name, o.Naming, defaultHost), reads: make(chan struct{}, readers),
		searches: make(chan struct{}, 1), services: map[string]*service{}, protocols: map[string]string{},
		strange: map[string]bool{}, account: o.Limits.Account(name),
	}
	s.ledger, s.queue.more = budget.NewLedger[string](s.account), make(chan struct{}, 1)
	s.out.Name, s.out.Account = name, s.account
	var err error
	if s.line, err = newLine(name, o, &s.out); err != nil {
		return nil, err
	}
	s.log = slog.New(s.line.secrets.Handler(log.Handler()))
	return s, nil
}

// Name is the registry's.
func (s *Source) Name() string { return s.name }

// Stats are what has been counted.
func (s *Source) Stats() platform.Stats { return s.out.Stats() }

// Traffic is how many requests were made of servers, and how many bytes their answers had.
func (s *Source) Traffic() (requests, bytes uint64) {
	return s.line.wire.requests.Load(), s.line.wire.bytes.Load()
}

// Run reads until ctx ends. It can be called once.
func (s *Source) Run(ctx context.Context, sink source.Sink) error {
	ctx, cancel := context.WithCancel(ctx)
	s.out.Start(ctx, sink, s.line.secrets.Hide)
	s.ctx = ctx
	first := make(chan struct{})
	s.workers.Go(func() { s.line.keep(ctx) })
	s.workers.Go(func() { s.followProtocols(ctx, first) })
	s.workers.Go(func() { s.search(ctx) })
	for range readers {
		s.workers.Go(func() { s.serve(ctx) })
	}
	select {
	case <-first: // protocols are there before services are
		s.followNames(ctx)
	case <-ctx.Done():
	}
	cancel()
	s.workers.Wait()
	servers.Close(s.line.client)
	return nil
}

// followNames follows the list of services.
func (s *Source) followNames(ctx context.Context) {
	var index, of, highest uint64
	var p pace
	for {
		at, err := s.line.get(ctx)
		if err != nil {
			return
		}
		if at.fresh != of {
			index = 0
		}
		l := nameList{most: min(s.o.Limits.Bounds().Things, mostServices)}
		q := query{path: "/v1/catalog/services", into: &l, index: index, wait: s.untilKept()} // whose cache does not wait
		p.asked = time.Now()
		meta, err := s.line.ask(ctx, at, q)
		begun := time.Now()
		if err == nil && meta.ResultsFilteredByACLs && len(l.names) == 0 {
			err = fmt.Errorf("Consul at %s: its token may read no service; see tokenFile", at.url) //nolint:staticcheck // a name
		}
		if err != nil {
			s.failed(ctx, at, err)
			of = 0
			continue
		}
		if meta.LastIndex < highest {
			s.lost()
		}
		changed := meta.LastIndex != index
		index, of, highest = meta.LastIndex, at.fresh, meta.LastIndex
		s.list(begun, l, meta.ResultsFilteredByACLs)
		if changed {
			s.wakeSearch()
		}
		if !s.keeps() {
			s.out.Fresh()
		}
		p.next(ctx, changed, 25*time.Millisecond)
	}
}

// list takes the names of all services.
func (s *Source) list(begun time.Time, l nameList, filtered bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	over := !s.keep.IsZero() && !begun.Before(s.keep)
	if over {
		s.keep = time.Time{}
	}
	for name, v := range s.services {
		if !l.names[name] && s.keep.IsZero() {
			s.drop(begun, v)
		} else if over && v.kept {
			v.kept = false
			s.refetch(v)
		}
	}
	for name := range s.strange {
		if !l.names[name] {
			delete(s.strange, name)
			s.ledger.Remove(name)
			s.out.Put(begun, nil, map[string][]mesh.Problem{"service " + name: nil})
		}
	}
	if s.most == 0 {
		s.most = s.watches()
	}
	for name := range l.names {
		if name == "consul" || s.services[name] != nil || s.isStrange(begun, name) { // Consul's own servers are nobody's to call
			continue
		}
		v := &service{name: name, changed: begun}
		s.services[name] = v
		s.unread++
		s.follow(v)
	}
	s.out.Has(len(s.services))
	s.listed = true
	s.readLeftOut(begun)
	s.tellList(begun, l, filtered)
	s.maybeSynced(begun)
}

// isStrange says whether a name is one that no host can be made of, and tells so. Nothing is asked of such a service: Consul takes any
// name, but answers requests whose path has some of them by 400, or sends them elsewhere.
func (s *Source) isStrange(begun time.Time, name string) bool {
	if s.strange[name] {
		return true
	}
	_, found := s.tr.Rows(&platform.Service{
		Name: name, Namespace: s.o.ConsulNamespace, Vars: map[string]string{"datacenter": cmp.Or(s.o.Datacenter, "dc")},
	})
	if strings.Trim(name, ".") == "" {
		found = []mesh.Problem{{
			Object: mesh.ObjectRef{Kind: s.name, Name: printable.Text(name, printable.Short)}, Field: "name", Code: code.BadName,
			Severity: mesh.Error, Message: "this is no name; the service is left out",
		}}
	}
	if len(found) > 0 {
		s.strange[name] = true
		s.ledger.Set(name, budget.Cost{Bytes: int64(2 * len(name))})
		s.out.Put(begun, nil, map[string][]mesh.Problem{"service " + name: found})
	}
	return len(found) > 0
}

// placeList is where problems of the whole list are told.
const placeList = "catalog"

func (s *Source) tellList(begun time.Time, l nameList, filtered bool) {
	var found []mesh.Problem
	of := mesh.ObjectRef{Kind: s.name, Name: placeList}
	if l.over > 0 {
		found = append(found, mesh.Problem{Object: of, Field: "services", Code: code.TooMuch, Severity: mesh.Error,
			Message: fmt.Sprintf("it has more than %d services, or names of more than %d bytes; %d are left out",
				l.most, mostNames, l.over)})
	}
	if filtered {
		found = append(found, mesh.Problem{Object: of, Field: "tokenFile", Code: code.MissingRight, Severity: mesh.Warning,
			Message: "the token may not read all services; those are left out",
			Fix:     `give it a policy with service_prefix "" and node_prefix "" { policy = "read" }`})
	}
	s.out.Put(begun, nil, map[string][]mesh.Problem{placeList: found})
}

// leftOutAgain is how often services that were left out are read again once there may be room.
const leftOutAgain = 30 * time.Second

// readLeftOut reads services again that were left out, if there may be room for them now.
func (s *Source) readLeftOut(now time.Time) {
	if !s.account.Room() || now.Before(s.again) {
		return
	}
	s.again = now.Add(leftOutAgain)
	for _, v := range s.services {
		if v.over {
			s.refetch(v)
		}
	}
}

// maybeSynced says that all has been read, once it has.
func (s *Source) maybeSynced(begun time.Time) {
	if s.synced || !s.listed || s.unread > 0 {
		return
	}
	s.synced = true
	s.out.Synced(begun, s.batch, nil)
	s.batch = nil
}

// hand hands on a service's rows and problems.
func (s *Source) hand(begun time.Time, v *service, shard source.Shard, found []mesh.Problem) {
	var problems map[string][]mesh.Problem
	if len(found) > 0 || v.told {
		problems = map[string][]mesh.Problem{"service " + v.name: found}
		v.told = len(found) > 0
	}
	if s.synced {
		s.out.Put(begun, []source.Shard{shard}, problems)
		return
	}
	if len(problems) > 0 {
		s.out.Put(begun, nil, problems)
	}
	if s.batch = append(s.batch, shard); len(s.batch) >= 256 {
		s.out.Put(begun, s.batch, nil)
		s.batch = nil
	}
}

// drop takes a service away.
func (s *Source) drop(begun time.Time, v *service) {
	delete(s.services, v.name)
	if v.stop != nil {
		s.release(v)
	}
	if !v.read {
		s.unread--
	}
	s.empty(begun, v)
}

// empty takes a service's rows away.
func (s *Source) empty(begun time.Time, v *service) {
	s.ledger.Remove(v.name)
	s.fits(v, true)
	v.ids = nil
	if v.handed || v.told {
		s.hand(begun, v, s.tr.Gone(s.o.ConsulNamespace, v.name), nil)
		v.handed = false
	}
}

// fits notes whether what was read of a service last has room. One that is left out counts once.
func (s *Source) fits(v *service, is bool) {
	if v.over && is {
		s.ledger.Leave(-1)
	}
	v.over = !is
}

// take takes what a server says of a service.
func (s *Source) take(asked, begun time.Time, v *service, meta *api.QueryMeta, all *entries) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.services[v.name] != v {
		return
	}
	if meta.LastIndex < v.index {
		if asked.Before(v.changed) { // it was overtaken by a newer answer
			return
		}
		s.lose()
	}
	v.bad = 0
	v.index, v.changed = meta.LastIndex, begun
	if !v.read {
		v.read = true
		s.unread--
	}
	defer s.maybeSynced(begun)
	made, ok := s.o.translated(v.name, s.protocols[v.name], all.kept)
	if v.proxies = !ok; v.proxies || len(all.kept) == 0 && !all.full {
		switch {
		case meta.ResultsFilteredByACLs: // what the token may not read is not gone
		case !s.keep.IsZero():
			v.kept = true
		default:
			s.empty(begun, v)
			if found := s.largeInstances(v, all.over); len(found) > 0 {
				v.told = true
				s.out.Put(begun, nil, map[string][]mesh.Problem{"service " + v.name: found})
			}
		}
		return
	}
	ids := make(map[uint64]bool, len(made.Instances))
	bytes := int64(0)
	for i := range made.Instances {
		ids[xxhash.Sum64String(made.Instances[i].ID)] = true
		bytes += made.Instances[i].Bytes()
	}
	if !s.keep.IsZero() {
		for id := range v.ids {
			if !ids[id] {
				v.kept = true
				return
			}
		}
	}
	shard, found := s.tr.Rows(made)
	ports := 0
	for _, row := range shard.Rows.Services {
		ports = len(row.Ports)
	}
	cost := platform.Cost(len(ids), bytes, ports)
	if all.full {
		cost.Bytes = s.o.Limits.Bounds().Bytes + 1
	}
	was := v.over
	if !s.ledger.Set(v.name, cost) {
		if was {
			s.ledger.Leave(-1)
		}
		v.over = true
		s.leftOut(begun, v, cost)
		return
	}
	s.fits(v, true)
	v.ids, v.handed = ids, true
	s.hand(begun, v, shard, append(found, s.largeInstances(v, all.over)...))
}

// leftOut tells that there is no room for what was read of a service. What it had before stays.
func (s *Source) leftOut(begun time.Time, v *service, cost budget.Cost) {
	stays := "it is left out"
	if v.handed {
		stays = "what it had before stays"
	}
	b := s.o.Limits.Bounds()
	v.told = true
	s.out.Put(begun, nil, map[string][]mesh.Problem{"service " + v.name: {{
		Object: mesh.ObjectRef{Kind: s.name, Name: printable.Text(v.name, printable.Short)}, Field: "instances", Code: code.TooMuch,
		Severity: mesh.Error, Message: fmt.Sprintf(
			"the registry has more than is kept of it, and there is no room for %d instances of %d bytes and %d ports more; %s",
			cost.Endpoints, cost.Bytes, cost.Ports, stays),
		Fix: fmt.Sprintf("give the service a %s, or raise maxInstances (%d), maxBytes (%d) or maxPorts (%d) of the registry",
			platform.MetaPort, b.Endpoints, b.Bytes, b.Ports),
	}}})
}

// largeInstances is what to say of instances that are too large to be read.
func (s *Source) largeInstances(v *service, n int) []mesh.Problem {
	if n == 0 {
		return nil
	}
	return []mesh.Problem{{
		Object: mesh.ObjectRef{Kind: s.name, Name: printable.Text(v.name, printable.Short)}, Field: "instances", Code: code.TooMuch,
		Severity: mesh.Error, Message: fmt.Sprintf("%d instances have more than %d KiB; they are left out", n, mostEntry>>10),
	}}
}

// unreadable tells that a service's answer cannot be read, and returns how often that was so. After some tries the start no longer waits
// for it.
func (s *Source) unreadable(v *service, err error) (times int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.services[v.name] != v {
		return 1
	}
	v.bad++
	v.told = true
	s.out.Put(time.Now(), nil, map[string][]mesh.Problem{"service " + v.name: {{
		Object: mesh.ObjectRef{Kind: s.name, Name: printable.Text(v.name, printable.Short)}, Field: "instances", Code: code.Unreadable,
		Severity: mesh.Error, Message: "what it has cannot be read, and stays as it was: " + printable.Text(err.Error(), printable.Long),
	}}})
	if v.bad >= 3 && !v.read {
		v.read = true
		s.unread--
		s.maybeSynced(time.Now())
	}
	return v.bad
}

// lost notes that Consul knows less than it did: it lost its data, or another server lags behind.
func (s *Source) lost() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lose()
}

func (s *Source) lose() {
	d := s.o.Kept(defaultKeep)
	if !s.keep.IsZero() || d == 0 || !s.synced {
		return
	}
	s.keep = time.Now().Add(d)
	for _, v := range s.services {
		s.refetch(v)
	}
	//nolint:staticcheck // it begins with a name
	s.out.Stale(fmt.Errorf("Consul's state is older than it was; what it no longer knows counts for %s (keepMissing)", d))
	s.log.Warn("Consul's state is older than it was", "registry", s.name, "kept", d)
}

func (s *Source) keeps() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.keep.IsZero()
}

// untilKept is how long the list may be waited for: while things are kept no longer than they are.
func (s *Source) untilKept() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.keep.IsZero() {
		return listWait
	}
	return max(time.Until(s.keep), time.Millisecond)
}

// followProtocols follows what service-defaults say. first is closed once that was read, or cannot be.
func (s *Source) followProtocols(ctx context.Context, first chan struct{}) {
	var index, of uint64
	var p pace
	fails := 0
	done := sync.OnceFunc(func() { close(first) })
	for {
		at, err := s.line.get(ctx)
		if err != nil {
			return
		}
		if at.fresh != of {
			index = 0
		}
		var l protocols
		p.asked = time.Now()
		meta, err := s.line.ask(ctx, at, query{path: "/v1/config/service-defaults", into: &l, index: index})
		if status := refused(err); status >= 400 && status < 500 && status != http.StatusTooManyRequests {
			// an old Consul has none, and a token need not have the right; services go without
			done()
			fails++
			s.log.Debug("service-defaults cannot be read", "registry", s.name, "error", err)
			if !(servers.Retry{Base: 5 * time.Second, Max: 5 * time.Minute}).Wait(ctx, fails) {
				return
			}
			continue
		}
		if err != nil {
			s.failed(ctx, at, err)
			continue
		}
		fails = 0
		changed := meta.LastIndex != index
		index, of = meta.LastIndex, at.fresh
		s.setProtocols(l)
		done()
		p.next(ctx, changed, 25*time.Millisecond)
	}
}

func (s *Source) setProtocols(l protocols) {
	now := l.by
	s.mu.Lock()
	defer s.mu.Unlock()
	if maps.Equal(now, s.protocols) {
		return
	}
	was := s.protocols
	s.protocols = now
	for name, v := range s.services {
		if was[name] != now[name] {
			s.refetch(v)
		}
	}
}
