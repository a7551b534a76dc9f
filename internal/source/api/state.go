package api

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"fairway/internal/config"
	"fairway/internal/disk"
	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
	"fairway/internal/printable"
	"fairway/internal/reading"
	"fairway/internal/source"
	"fairway/internal/source/platform"
)

// ErrRunning says that Run was called while another Run of the same source had not ended.
var ErrRunning = errors.New("memory source runs already")

// Source holds what was put into it, by its methods and by HTTP. Before Run it gathers; while Run runs, each change has
// reached the sink when the method that makes it returns. All methods may be called from any goroutine, except out of the
// sink's Apply.
type Source struct {
	name    string
	opts    Options // with defaults
	log     *slog.Logger
	decoder *config.Decoder
	rows    *platform.Translator // of services that name no host
	hosts   *platform.Translator // of those that do
	journal *journal             // nil: nothing is kept
	bodies  bodies
	lane    *reading.Lane // bodies that are large are decoded one at a time
	server  server

	writing sync.Mutex       // held by one change at a time, from looking until the sink has it
	leases  leases           // guarded by writing
	out     *platform.Outbox // changed while writing and mu are held
	wanting bool             // for a snapshot; guarded by writing

	mu      sync.Mutex // held for moments, writing perhaps before it
	book    *book
	changed chan struct{} // closed with the next change
}

var _ source.Source = (*Source)(nil)

// New returns a source of that name, with what StateFile holds. Names of sources are unique within a program. log gets
// what happens on its own.
func New(name string, o Options, log *slog.Logger, decoder *config.Decoder) (*Source, error) {
	return newOn(disk.OS, name, o, log, decoder)
}

func newOn(files disk.Files, name string, o Options, log *slog.Logger, decoder *config.Decoder) (*Source, error) {
	if err := o.Validate(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	o = o.withDefaults()
	byHost := o.Naming
	byHost.Host = "{host}"
	s := &Source{
		name: name, opts: o, log: log.With("source", name), decoder: decoder,
		rows:   platform.NewTranslator(name, o.Naming, defaultHost),
		hosts:  platform.NewTranslator(name, byHost, ""),
		leases: newLeases(), book: newBook(time.Now()), changed: make(chan struct{}),
		bodies: newBodies(o), lane: reading.NewLane(), server: newServer(),
	}
	s.wanting = o.AwaitSnapshot
	if o.StateFile == "" {
		return s, nil
	}
	j, book, err := openJournal(files, o.StateFile, o.MaxState<<20, s.book)
	if err != nil {
		return nil, fmt.Errorf("%s: stateFile: %w", name, err)
	}
	s.journal, s.book = j, book
	s.wanting = o.AwaitSnapshot && len(book.entries) == 0
	for _, e := range book.all() {
		if e.key.kind != "" {
			continue
		}
		service, err := stored(e.body)
		if err != nil {
			return nil, fmt.Errorf("%s: stateFile: %s: %w", name, e.key.path(), err)
		}
		e.instances = len(service.Instances)
		book.instances += e.instances
		shard, _ := s.serviceRows(&service)
		for _, row := range shard.Rows.Services {
			e.ports = len(row.Ports)
		}
		book.ports += e.ports
		s.leases.set(&service, true, time.Now())
	}
	return s, nil
}

// Name is the name that New was given.
func (s *Source) Name() string { return s.name }

// Stats are what is counted of the source.
func (s *Source) Stats() platform.Stats {
	s.mu.Lock()
	out := s.out
	s.mu.Unlock()
	if out == nil {
		return platform.Stats{}
	}
	return out.Stats()
}

// setOut sets where changes go. writing is held.
func (s *Source) setOut(out *platform.Outbox) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.out = out
}

// Run hands over what is there, then each change, and serves the API, until ctx ends. Where its address cannot be had it
// is tried again, and the source says so. What changes after Run gathers for the next one. A second Run at the same time
// is ErrRunning.
func (s *Source) Run(ctx context.Context, sink source.Sink) error {
	if err := s.open(ctx, sink); err != nil {
		return err
	}
	var running sync.WaitGroup
	running.Go(func() { s.expire(ctx) })
	if s.opts.Address != "" {
		running.Go(func() { s.serve(ctx) })
	}
	<-ctx.Done()
	running.Wait()
	s.writing.Lock()
	s.setOut(nil)
	s.writing.Unlock()
	return s.journal.close()
}

func (s *Source) open(ctx context.Context, sink source.Sink) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	if s.out != nil {
		return ErrRunning
	}
	out := &platform.Outbox{Sink: sink} // not started yet: what there is at the start takes the place of all that was, at once
	s.leases.renew(time.Now())          // nobody could put anything again meanwhile
	begun := time.Now()
	shards, problems := []source.Shard{{Whole: true}}, map[string][]mesh.Problem{}
	for _, e := range s.book.all() {
		shard, found := s.restored(e)
		shards = append(shards, shard)
		if len(found) > 0 {
			problems[e.key.path()] = found
		}
	}
	if out.Has(s.book.services + s.book.objects); s.wanting {
		out.Put(begun, shards, problems)
	} else {
		out.Synced(begun, shards, problems)
	}
	out.Start(ctx, sink, nil)
	s.setOut(out)
	return nil
}

// restored makes the rows of what is stored. What another version of this program took, and this one does not, has none,
// and says so.
func (s *Source) restored(e *entry) (source.Shard, []mesh.Problem) {
	if e.key.kind != "" {
		return s.objectRows(e.key, config.Document{File: "/v1/" + e.key.path(), Line: 1, Text: e.body})
	}
	service, err := stored(e.body)
	if err != nil {
		panic(err) // New has read it
	}
	return s.serviceRows(&service)
}

func (s *Source) serviceRows(v *Service) (source.Shard, []mesh.Problem) {
	if v.Host != "" {
		return s.hosts.Rows(v.registered())
	}
	return s.rows.Rows(v.registered())
}

// objectKind is that of the shards that objects are handed in as.
const objectKind = "object"

func (s *Source) objectRows(k key, doc config.Document) (source.Shard, []mesh.Problem) {
	shard := source.Shard{Key: source.ShardKey{Kind: objectKind, Part: k.path()}, Whole: true}
	object, problems := s.decoder.Decode(doc)
	if object != nil {
		shard.Rows.Objects = []*config.Object{object}
	}
	return shard, problems
}

// Refusal is why something was not taken. Nothing of it counts.
type Refusal struct {
	Status   int            // of HTTP
	Message  string         // what is wrong, in a sentence
	Problems []mesh.Problem // of what was put, where it could be read so far
}

func (r *Refusal) Error() string {
	out := r.Message
	for _, p := range r.Problems {
		if p.Severity == mesh.Error {
			out += "; " + p.String()
		}
	}
	return printable.Text(out, printable.Long)
}

// Missing says whether it is because what was to be changed is not there.
func (r *Refusal) Missing() bool { return r.Status == http.StatusNotFound }

func refuse(status int, format string, args ...any) *Refusal {
	return &Refusal{Status: status, Message: fmt.Sprintf(format, args...)}
}

// Outcome is what a change led to.
type Outcome struct {
	Revision uint64         // of what was changed, or is as it was
	Created  bool           // it was not there
	Problems []mesh.Problem // what of it does not do what it says
}

// Condition is what must be so for a change to be made. The zero value is met always.
type Condition struct {
	Revision uint64 // that the thing has; 0: any
	Exists   bool
	Absent   bool
}

func (c Condition) check(k key, e *entry) error {
	switch {
	case c.Absent && e != nil:
		return refuse(http.StatusPreconditionFailed, "%s is there already, in revision %d", k.path(), e.revision)
	case (c.Exists || c.Revision != 0) && e == nil:
		return refuse(http.StatusPreconditionFailed, "%s is not there", k.path())
	case c.Revision != 0 && e.revision != c.Revision:
		return refuse(http.StatusPreconditionFailed, "%s is in revision %d by now; read it again, and change that", k.path(), e.revision)
	}
	return nil
}

// checkName says why a word of a path is no name.
func checkName(what, name string) error {
	if name == "" || len(name) > 253 || !printable.Is(name, 253) || slices.Contains([]byte(name), '/') || name == "." || name == ".." {
		return refuse(http.StatusBadRequest, "%s: %s is none; want letters, digits, '-' and '.', at most 253", what, quoted(name))
	}
	return nil
}

// change is one that was checked and makes a difference.
type change struct {
	entry    entry
	shard    source.Shard
	problems []mesh.Problem
	service  *Service // nil: it is an object, or gone
	renews   bool     // all instances of the service were put now
}

// checkService brings a service into the form that is stored, and makes its rows.
func (s *Source) checkService(v *Service) (change, error) {
	for _, err := range []error{checkName("namespace", v.Namespace), checkName("name", v.Name)} {
		if err != nil {
			return change{}, err
		}
	}
	if err := v.order(); err != nil {
		return change{}, refuse(http.StatusUnprocessableEntity, "%s: %s", v.key().path(), err)
	}
	shard, problems := s.serviceRows(v)
	if v.Port > 65535 {
		problems = append(problems, v.problem("port", code.BadPort, "want a number from 1 to 65535"))
	}
	if len(shard.Rows.Services) == 1 && len(v.ExportTo) > 0 && !slices.Equal(shard.Rows.Services[0].ExportTo, v.ExportTo) {
		problems = append(problems, v.problem("exportTo", code.BadExportTo, `want namespaces, ".", "*" or "~"`))
	}
	if failed(problems) || len(shard.Rows.Services) == 0 {
		return change{}, &Refusal{http.StatusUnprocessableEntity, v.key().path() + " is refused", problems}
	}
	e := entry{
		key: v.key(), body: encode(v), instances: len(v.Instances), ports: len(shard.Rows.Services[0].Ports), told: len(problems) > 0,
	}
	return change{entry: e, shard: shard, problems: problems, service: v}, nil
}

func (s *Service) problem(field, code, message string) mesh.Problem {
	return mesh.Problem{
		Object: mesh.ObjectRef{Kind: "Service", Namespace: s.Namespace, Name: s.Name}, Field: field, Code: code,
		Severity: mesh.Error, Message: message,
	}
}

func failed(problems []mesh.Problem) bool {
	return slices.ContainsFunc(problems, func(p mesh.Problem) bool { return p.Severity == mesh.Error })
}

// checkObject decodes the text of an object, and holds it to its key; of the zero key it takes the text's. The text must
// not be changed afterwards.
func (s *Source) checkObject(k key, text []byte) (change, error) {
	docs := config.Split("", text)
	if len(docs) != 1 {
		return change{}, refuse(http.StatusUnprocessableEntity, "the body holds %d objects; want one", len(docs))
	}
	doc := docs[0]
	if k == (key{}) {
		object, problems := s.decoder.Decode(doc)
		if object == nil {
			return change{}, &Refusal{http.StatusUnprocessableEntity, "an object is refused", problems}
		}
		k = key{string(object.Kind), object.Namespace, object.Name}
	}
	if !slices.Contains(config.Kinds(), config.Kind(k.kind)) {
		return change{}, refuse(http.StatusUnprocessableEntity, "%s is no kind that is taken here; want one of Istio's: %v",
			quoted(k.kind), config.Kinds())
	}
	for _, err := range []error{checkName("namespace", k.namespace), checkName("name", k.name)} {
		if err != nil {
			return change{}, err
		}
	}
	doc.File = "/v1/" + k.path()
	shard, problems := s.objectRows(k, doc)
	if failed(problems) || len(shard.Rows.Objects) == 0 {
		return change{}, &Refusal{http.StatusUnprocessableEntity, k.path() + " is refused", problems}
	}
	if o := shard.Rows.Objects[0]; o.Key != (config.Key{Kind: config.Kind(k.kind), Namespace: k.namespace, Name: k.name}) {
		return change{}, refuse(http.StatusUnprocessableEntity,
			"the body is %s, the path says %s %s/%s; an object that names no namespace is in %s",
			printable.Text(o.Key.String(), printable.Short), k.kind, k.namespace, k.name, platform.DefaultNamespace)
	}
	return change{entry: entry{key: k, body: doc.Text, told: len(problems) > 0}, shard: shard, problems: problems}, nil
}

// gone is the change that takes a thing away.
func (s *Source) gone(k key) change {
	shard := s.rows.Gone(k.namespace, k.name)
	if k.kind != "" {
		shard = source.Shard{Key: source.ShardKey{Kind: objectKind, Part: k.path()}, Whole: true}
	}
	return change{entry: entry{key: k}, shard: shard}
}

// PutService puts a service in the place of what there is of it. Its instances stay where it says nothing of them. It is
// changed: what it holds is brought into order.
func (s *Source) PutService(v Service, c Condition) (Outcome, error) {
	renews := v.Instances != nil
	return s.alter(v.key(), c, func(e *entry) (change, error) {
		if !renews && e != nil {
			before, err := stored(e.body)
			if err != nil {
				return change{}, err
			}
			v.Instances = before.Instances
		}
		made, err := s.checkService(&v)
		made.renews = renews
		return made, err
	})
}

// PutInstance puts one instance of a service. A service that is not there is made, of its name alone.
func (s *Source) PutInstance(namespace, name string, in Instance, c Condition) (Outcome, error) {
	k := key{"", namespace, name}
	if err := in.check(); err != nil {
		return Outcome{}, refuse(http.StatusUnprocessableEntity, "%s", err)
	}
	sum := sha256.Sum256(encode(in))
	return s.alter(k, c, func(e *entry) (change, error) {
		v := Service{Namespace: namespace, Name: name}
		if e != nil {
			if s.leases.extend(k, in.ID, sum, time.Now()) {
				return change{entry: *e}, nil
			}
			var err error
			if v, err = stored(e.body); err != nil {
				return change{}, err
			}
		}
		v.at(in)
		return s.checkService(&v)
	})
}

// DeleteInstance takes one instance of a service away. One that is not there is a Refusal.
func (s *Source) DeleteInstance(namespace, name, id string, c Condition) (Outcome, error) {
	k := key{"", namespace, name}
	return s.alter(k, c, func(e *entry) (change, error) {
		var v Service
		var err error
		if e != nil {
			v, err = stored(e.body)
		}
		if err != nil || e == nil || !v.without(id) {
			return change{}, errors.Join(err, refuse(http.StatusNotFound, "%s has no instance %s", k.path(), quoted(id)))
		}
		return s.checkService(&v)
	})
}

// PutObject puts a rule, as YAML or JSON. kind may be empty: then the text's own names count.
func (s *Source) PutObject(kind, namespace, name string, text []byte, c Condition) (Outcome, error) {
	checked, err := s.checkObject(key{kind, namespace, name}, slices.Clone(text))
	if err != nil {
		return Outcome{}, err
	}
	return s.alter(checked.entry.key, c, func(*entry) (change, error) { return checked, nil })
}

// DeleteService takes a service away. One that is not there is a Refusal.
func (s *Source) DeleteService(namespace, name string, c Condition) (Outcome, error) {
	return s.remove(key{"", namespace, name}, c)
}

// DeleteObject takes a rule away. One that is not there is a Refusal.
func (s *Source) DeleteObject(kind, namespace, name string, c Condition) (Outcome, error) {
	return s.remove(key{kind, namespace, name}, c)
}

func (s *Source) remove(k key, c Condition) (Outcome, error) {
	return s.alter(k, c, func(e *entry) (change, error) {
		if e == nil {
			return change{}, refuse(http.StatusNotFound, "%s is not there", k.path())
		}
		return s.gone(k), nil
	})
}

// alter makes one change, out of what there is.
func (s *Source) alter(k key, c Condition, to func(*entry) (change, error)) (Outcome, error) {
	begun := time.Now()
	out, wait, err := s.alterLocked(begun, k, c, to)
	if err == nil {
		err = wait()
	}
	return out, err
}

func (s *Source) alterLocked(begun time.Time, k key, c Condition, to func(*entry) (change, error)) (Outcome, func() error, error) {
	s.writing.Lock()
	defer s.writing.Unlock()
	e := s.book.get(k) // books are changed by who holds writing alone
	if err := c.check(k, e); err != nil {
		return Outcome{}, nil, err
	}
	made, err := to(e)
	if err != nil {
		return Outcome{}, nil, err
	}
	if e != nil && made.entry.body != nil && string(e.body) == string(made.entry.body) {
		if made.service != nil {
			s.leases.set(made.service, made.renews, time.Now())
		}
		return Outcome{Revision: e.revision, Problems: made.problems}, s.waitFor(e.revision), nil
	}
	changes := []change{made}
	if err := s.room(changes); err != nil {
		return Outcome{}, nil, err
	}
	revision := s.commit(begun, changes)
	return Outcome{Revision: revision, Created: e == nil, Problems: made.problems}, s.waitFor(revision), nil
}

// amount is what is bounded of what is stored.
type amount struct {
	services, instances, ports, objects int
	bytes                               int64
}

// add adds an entry, or takes it away if sign is -1.
func (a *amount) add(e *entry, sign int) {
	if e == nil || e.body == nil {
		return
	}
	a.instances += sign * e.instances
	a.ports += sign * e.ports
	a.bytes += int64(sign * len(e.body))
	if e.key.kind == "" {
		a.services += sign
	} else {
		a.objects += sign
	}
}

// room says whether changes fit into the bounds. Those that make less always do.
func (s *Source) room(changes []change) error {
	var more amount
	for _, c := range changes {
		more.add(s.book.get(c.entry.key), -1)
		more.add(&c.entry, 1)
	}
	b := s.book
	return s.fits("", amount{b.services, b.instances, b.ports, b.objects, b.bytes}, more)
}

// fits says whether there is room for more beside what is there. about is put before a number that is not the last one.
func (s *Source) fits(about string, there, more amount) error {
	for _, n := range []struct {
		what              string
		more, there, most int64
		field             string
	}{
		{"services", int64(more.services), int64(there.services), int64(s.opts.MaxServices), "maxServices"},
		{"instances", int64(more.instances), int64(there.instances), int64(s.opts.MaxInstances), "maxInstances"},
		{"ports", int64(more.ports), int64(there.ports), int64(s.opts.MaxPorts), "maxPorts"},
		{"objects", int64(more.objects), int64(there.objects), int64(s.opts.MaxObjects), "maxObjects"},
		{"bytes", more.bytes, there.bytes, s.opts.MaxState << 20, "maxStateMiB"},
	} {
		if n.more > 0 && n.there+n.more > n.most {
			return refuse(http.StatusInsufficientStorage,
				"there would be %s%d %s of at most %d (%s)", about, n.there+n.more, n.what, n.most, n.field)
		}
	}
	return nil
}

// commit makes changes at once, and returns the revision of the last. writing is held.
func (s *Source) commit(begun time.Time, changes []change) uint64 {
	shards, problems := make([]source.Shard, len(changes)), map[string][]mesh.Problem{}
	s.mu.Lock()
	now := time.Now()
	for i, c := range changes {
		if before := s.book.get(c.entry.key); len(c.problems) > 0 || before != nil && before.told {
			problems[c.entry.key.path()] = c.problems
		}
		e := s.book.put(c.entry)
		s.journal.add(e)
		if shards[i] = c.shard; c.service != nil {
			s.leases.set(c.service, c.renews, now)
		} else {
			s.leases.drop(c.entry.key)
		}
	}
	revision, objects := s.book.revision, s.book.services+s.book.objects
	close(s.changed)
	s.changed = make(chan struct{})
	s.mu.Unlock()
	if s.out != nil {
		s.out.Has(objects)
		s.out.Put(begun, shards, problems)
	}
	return revision
}

// waitFor returns what waits until a revision is kept.
func (s *Source) waitFor(revision uint64) func() error {
	return func() error {
		if err := s.journal.flush(revision, s.content); err != nil {
			s.log.Error("the state cannot be written down", "file", s.opts.StateFile, "error", err)
			return refuse(http.StatusInternalServerError,
				"it is in force, but cannot be written down, so that a restart would lose it: %s; put it again", err)
		}
		return nil
	}
}

// content is the state for the journal, to be written anew.
func (s *Source) content() (entries []*entry, floor, revision uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.book.order {
		if p.entry != nil {
			entries = append(entries, p.entry)
		}
	}
	return entries, s.book.floor, s.book.revision
}

// Snapshot is all there is, of services, of rules, or of both.
type Snapshot struct {
	Services []Service // nil: those that are there stay
	Objects  [][]byte  // YAML or JSON, one each; nil: those that are there stay
}

// Replace makes all that there is of services, of rules, or of both what a snapshot says, at once; what is not in it goes.
// One thing that is refused refuses it all. Its services are changed: what they hold is brought into order.
func (s *Source) Replace(all Snapshot, c Condition) (Outcome, error) {
	begun := time.Now()
	wanted, err := s.checkSnapshot(all)
	if err != nil {
		return Outcome{}, err
	}
	out, wait, err := s.replaceLocked(begun, all, wanted, c)
	if err == nil {
		err = wait()
	}
	return out, err
}

func (s *Source) checkSnapshot(all Snapshot) (map[key]change, error) {
	wanted := make(map[key]change, len(all.Services)+len(all.Objects))
	if len(all.Services) > s.opts.MaxServices || len(all.Objects) > s.opts.MaxObjects {
		return nil, refuse(http.StatusInsufficientStorage, "%d services and %d objects are more than %d and %d (maxServices, maxObjects)",
			len(all.Services), len(all.Objects), s.opts.MaxServices, s.opts.MaxObjects)
	}
	var wants amount
	add := func(made change, err error) error {
		if err != nil {
			return err
		}
		if _, twice := wanted[made.entry.key]; twice {
			return refuse(http.StatusUnprocessableEntity, "%s is there twice", made.entry.key.path())
		}
		wanted[made.entry.key] = made
		// All that is there of a list is replaced, so that what does not fit by itself is refused before more rows are made of it.
		wants.add(&made.entry, 1)
		return s.fits("at least ", amount{}, wants)
	}
	var least amount // of all services; no rows are made if that is too much already
	for i := range all.Services {
		least.instances += len(all.Services[i].Instances)
		least.bytes += int64(len(encode(&all.Services[i])))
		if err := s.fits("at least ", amount{}, least); err != nil {
			return nil, err
		}
	}
	for i := range all.Services {
		made, err := s.checkService(&all.Services[i])
		made.renews = true
		if err := add(made, err); err != nil {
			return nil, within(err, "services", i)
		}
	}
	for i, text := range all.Objects {
		if err := add(s.checkObject(key{}, slices.Clone(text))); err != nil {
			return nil, within(err, "objects", i)
		}
	}
	return wanted, nil
}

// within says which of a snapshot's things is refused.
func within(err error, list string, at int) error {
	var why *Refusal
	if errors.As(err, &why) {
		return &Refusal{why.Status, list + "[" + strconv.Itoa(at) + "]: " + why.Message, why.Problems}
	}
	return err
}

func (s *Source) replaceLocked(begun time.Time, all Snapshot, wanted map[key]change, c Condition) (Outcome, func() error, error) {
	s.writing.Lock()
	defer s.writing.Unlock()
	if c.Revision != 0 && c.Revision != s.book.revision {
		return Outcome{}, nil, refuse(http.StatusPreconditionFailed, "the state is in revision %d by now", s.book.revision)
	}
	var changes []change
	var problems []mesh.Problem
	for k, e := range s.book.entries {
		replaced := k.kind == "" && all.Services != nil || k.kind != "" && all.Objects != nil
		if _, stays := wanted[k]; e.body != nil && replaced && !stays {
			changes = append(changes, s.gone(k))
		}
	}
	for k, made := range wanted {
		if problems = append(problems, made.problems...); len(problems) > mostProblems {
			problems = problems[:mostProblems]
		}
		if e := s.book.get(k); e == nil || string(e.body) != string(made.entry.body) {
			changes = append(changes, made)
		} else if made.service != nil {
			s.leases.set(made.service, made.renews, time.Now())
		}
	}
	if err := s.room(changes); err != nil {
		return Outcome{}, nil, err
	}
	// what goes makes room first; and two that do the same change in the same order
	slices.SortFunc(changes, func(a, b change) int { return compareChange(a.entry, b.entry) })
	revision := s.book.revision
	if len(changes) > 0 {
		revision = s.commit(begun, changes)
	}
	if s.wanting = false; s.out != nil {
		s.out.Synced(begun, nil, nil)
	}
	return Outcome{Revision: revision, Problems: problems}, s.waitFor(revision), nil
}

// mostProblems are told in one answer.
const mostProblems = 100

// compareChange orders by what goes, then kind, namespace and name.
func compareChange(a, b entry) int {
	if (a.body == nil) != (b.body == nil) {
		if a.body == nil {
			return -1
		}
		return 1
	}
	return config.CompareKey(config.Key{Kind: config.Kind(a.key.kind), Namespace: a.key.namespace, Name: a.key.name},
		config.Key{Kind: config.Kind(b.key.kind), Namespace: b.key.namespace, Name: b.key.name})
}

// expire takes instances away that were not put again in time, until ctx ends.
func (s *Source) expire(ctx context.Context) {
	for {
		s.writing.Lock()
		wait := s.leases.next(time.Now())
		s.writing.Unlock()
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
			s.expireNow()
		case <-s.leases.sooner:
		case <-ctx.Done():
			timer.Stop()
			return
		}
		timer.Stop()
	}
}

func (s *Source) expireNow() {
	begun := time.Now()
	s.writing.Lock()
	late := s.leases.late(begun)
	var changes []change
	for k, ids := range late {
		e := s.book.get(k)
		if e == nil {
			continue
		}
		v, err := stored(e.body)
		if err != nil {
			panic(err) // it was written by encode
		}
		for _, id := range ids {
			v.without(id)
		}
		made, err := s.checkService(&v)
		if err != nil { // it was taken once, with more than it has now
			s.log.Error("instances that were not put again stay", "service", k.path(), "error", err)
			continue
		}
		changes = append(changes, made)
	}
	if len(changes) == 0 {
		s.writing.Unlock()
		return
	}
	slices.SortFunc(changes, func(a, b change) int { return compareChange(a.entry, b.entry) })
	wait := s.waitFor(s.commit(begun, changes))
	s.writing.Unlock()
	for _, k := range slices.Collect(maps.Keys(late)) {
		s.log.Info("instances were not put again in time and are gone", "service", k.path(), "instances", len(late[k]))
	}
	_ = wait() // it is logged, and an instance that comes back with a restart goes again
}

// Service returns a service as it is stored.
func (s *Source) Service(namespace, name string) (Service, bool) {
	s.mu.Lock()
	e := s.book.get(key{"", namespace, name})
	s.mu.Unlock()
	if e == nil {
		return Service{}, false
	}
	v, err := stored(e.body)
	return v, err == nil
}

// Revision is that of the last change.
func (s *Source) Revision() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.book.revision
}
