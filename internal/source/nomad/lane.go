package nomad

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/nomad/api"

	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
	"fairway/internal/source"
	"fairway/internal/source/platform"
)

// lane keeps one namespace up to date, or all of them. Its fields are its own goroutine's.
type lane struct {
	of                        *Source
	namespace                 string
	maxServices, maxInstances int
	keep                      time.Duration

	at       int                       // which server is asked
	index    uint64                    // up to which everything has been heard; 0: nothing has been read
	unsure   bool                      // something may have been missed: everything is listed again
	lost     time.Time                 // since when a server does not know what was read; zero: none
	services map[key][]*record         // in order of id
	heard    map[key]uint64            // the index up to which a service was read by itself, beyond index
	count    int                       // records
	dirty    map[key]struct{}          // services that changed since they were handed over
	wrong    map[string][]mesh.Problem // what was told, by place
	over     int                       // services and instances that were left out
}

func newLane(of *Source, namespace string, o Options) *lane {
	keep, _ := o.keep() // valid
	l := &lane{
		of: of, namespace: namespace, maxServices: o.MaxServices, maxInstances: o.MaxInstances, keep: keep,
		services: map[key][]*record{}, heard: map[key]uint64{}, dirty: map[key]struct{}{}, wrong: map[string][]mesh.Problem{},
	}
	if l.maxServices == 0 {
		l.maxServices = defaultServices
	}
	if l.maxInstances == 0 {
		l.maxInstances = defaultInstances
	}
	return l
}

// errMissed says that events may have been missed. It is nobody's fault.
var errMissed = errors.New("events may have been missed; everything is listed again")

func (l *lane) run(ctx context.Context) {
	for fails := 0; ctx.Err() == nil; {
		begun := time.Now()
		live, err := l.follow(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case errors.Is(err, errMissed):
			l.of.log.Info("everything is listed again", "namespace", l.namespace)
			l.unsure = true
		case live:
			if time.Since(begun) > lasting {
				fails = 0
			}
		default:
			l.of.standing(l, fmt.Errorf("%s: %w", l.of.servers[l.at].Address(), err))
			l.at = (l.at + 1) % len(l.of.servers)
		}
		if fails++; fails > 1 && !platform.DefaultRetry.Wait(ctx, fails-1) {
			return
		}
	}
}

func (l *lane) query(ctx context.Context, namespace string) *api.QueryOptions {
	return (&api.QueryOptions{Namespace: namespace}).WithContext(ctx)
}

// follow reads everything if need be, and then what happens, until that ends. live says that it was up to date meanwhile.
func (l *lane) follow(ctx context.Context) (live bool, err error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	c := l.of.servers[l.at]
	if l.index == 0 || l.unsure || l.over > 0 {
		if err := l.list(ctx, c); err != nil {
			return false, err
		}
	}
	events, err := c.EventStream().Stream(ctx, map[api.Topic][]string{api.TopicService: {"*"}}, l.index, l.query(ctx, l.namespace))
	if err != nil {
		l.unsure = true // who may not follow lists each time
		return false, explained(err, l.namespace)
	}
	defer func() {
		for stop(); ; {
			if _, more := <-events; !more { // its goroutine has ended
				return
			}
		}
	}()
	sure, err := l.missedNothing(ctx, c)
	if err != nil {
		return false, err
	}
	if sure {
		l.of.standing(l, nil)
	}
	// One that was not sure hears of it at once: there are events beyond the index.
	doubt := time.NewTimer(doubtTime)
	defer doubt.Stop()
	for {
		select {
		case <-ctx.Done():
			return sure, ctx.Err()
		case <-doubt.C:
			if !sure {
				return false, errMissed
			}
		case e, more := <-events:
			if !more {
				return sure, errors.New("the stream of events ended")
			}
			begun := time.Now()
			for n := 0; e != nil; n++ {
				switch {
				case e.Err != nil:
					l.flush(begun)
					return sure, fmt.Errorf("the stream of events ended: %w", e.Err)
				case e.Index <= l.index:
					if !sure && e.Index == l.index { // this one had been heard, so those that follow are all
						sure = true
						l.of.standing(l, nil)
					}
				case !sure:
					return false, errMissed
				default:
					if err := l.take(e); err != nil {
						return false, err
					}
				}
				if e = nil; n < mostEvents {
					select {
					case e = <-events:
					default:
					}
				}
			}
			l.flush(begun)
			if l.over > 0 {
				return sure, errMissed
			}
		}
	}
}

const (
	doubtTime  = 5 * time.Second // for which a stream may say nothing though there is something to say
	lasting    = time.Second     // is a stream that is followed anew without a pause
	mostEvents = 1000            // are taken before what changed is handed over
)

// missedNothing asks for the list's index: nothing has changed where it is the lane's.
func (l *lane) missedNothing(ctx context.Context, c *api.Client) (bool, error) {
	_, meta, err := c.Services().List(l.query(ctx, l.namespace))
	if err != nil {
		return false, explained(err, l.namespace)
	}
	if meta.LastIndex < l.index {
		return false, errMissed // it is another server's, or it has lost what it knew
	}
	return meta.LastIndex == l.index, nil
}

// explained says what would be right where Nomad refuses.
func explained(err error, namespace string) error {
	var refused api.UnexpectedResponseError
	if !errors.As(err, &refused) || refused.StatusCode() != http.StatusForbidden {
		return err
	}
	if namespace == everywhere {
		return fmt.Errorf("%w: the token (tokenFile) may not read all namespaces; give it read-job in all, or name namespaces", err)
	}
	return fmt.Errorf("%w: the token (tokenFile) needs read-job in the namespace", err)
}

// list reads everything.
func (l *lane) list(ctx context.Context, c *api.Client) error {
	stubs, meta, err := c.Services().List(l.query(ctx, l.namespace))
	if err != nil {
		return explained(err, l.namespace)
	}
	begun := time.Now()
	var keys []key
	over := 0
	for _, of := range stubs {
		if of == nil {
			continue
		}
		for _, s := range of.Services {
			switch {
			case s == nil || s.ServiceName == "":
			case len(keys) >= l.maxServices:
				over++
			default:
				keys = append(keys, key{shared(of.Namespace), s.ServiceName})
			}
		}
	}
	read, err := l.each(ctx, c, keys)
	if err != nil {
		return err
	}
	if err := l.believe(meta.LastIndex, len(keys)); err != nil {
		return err
	}
	l.replace(read, over)
	l.index, l.unsure = max(meta.LastIndex, 1), false
	l.flush(begun)
	return nil
}

// found is what was read of one service.
type found struct {
	registrations []*api.ServiceRegistration
	index         uint64
}

// each reads services, some at once.
func (l *lane) each(ctx context.Context, c *api.Client, keys []key) (map[key]found, error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var mu sync.Mutex
	var asking sync.WaitGroup
	out := make(map[key]found, len(keys))
	next := make(chan key)
	for range min(atOnce, len(keys)) {
		asking.Go(func() {
			for k := range next {
				list, meta, err := c.Services().Get(k.name, l.query(ctx, k.namespace))
				if err != nil {
					stop(fmt.Errorf("service %s: %w", shown(k.namespace+"/"+k.name), explained(err, k.namespace)))
					continue
				}
				mu.Lock()
				out[k] = found{list, meta.LastIndex}
				mu.Unlock()
			}
		})
	}
	for _, k := range keys {
		if ctx.Err() != nil {
			break
		}
		next <- k
	}
	close(next)
	asking.Wait()
	return out, context.Cause(ctx)
}

// believe says whether a list counts. A server whose index is less than what was heard has lost what it knew, or is another's; what
// it knows now counts once it is no less than half of what was read, or after a while.
func (l *lane) believe(index uint64, services int) error {
	if index >= l.index || 2*services >= len(l.services) {
		l.lost = time.Time{}
		return nil
	}
	now := time.Now()
	if l.lost.IsZero() {
		l.lost = now
	}
	if now.Sub(l.lost) >= l.keep {
		l.lost = time.Time{}
		return nil
	}
	return fmt.Errorf("the server has lost what it knew (its index is %d, and was %d): of %d services it has %d; what was read stays for %s",
		index, l.index, len(l.services), services, l.keep)
}

// replace makes what was read all there is.
func (l *lane) replace(read map[key]found, over int) {
	l.over, l.count = over, 0
	for k := range l.services {
		if f, is := read[k]; !is || len(f.registrations) == 0 {
			l.drop(k)
		}
	}
	clear(l.heard)
	for _, k := range sortedKeys(read) {
		f := read[k]
		var members []*record
		changed := false
		for _, r := range f.registrations {
			switch {
			case r == nil:
			case l.count >= l.maxInstances:
				l.over++
			default:
				l.count++
				n := newRecord(r)
				members, _ = put(members, &n)
			}
		}
		if len(members) == 0 {
			l.drop(k)
			continue
		}
		before := l.services[k]
		changed = !slices.EqualFunc(before, members, func(a, b *record) bool { return a.same(b) })
		if before == nil {
			l.of.services.Add(1)
		}
		l.services[k], l.heard[k] = members, f.index
		if changed {
			l.dirty[k] = struct{}{}
		}
	}
}

func (l *lane) drop(k key) {
	if _, is := l.services[k]; is {
		delete(l.services, k)
		l.dirty[k] = struct{}{}
		l.of.services.Add(-1)
	}
}

// Types of events.
const (
	registered   = "ServiceRegistration"
	deregistered = "ServiceDeregistration"
)

// take takes what happened at one index.
func (l *lane) take(e *api.Events) error {
	for i := range e.Events {
		one := &e.Events[i]
		if one.Topic != api.TopicService {
			continue
		}
		r, err := one.Service()
		if err != nil || r == nil || r.ServiceName == "" || r.ID == "" {
			return fmt.Errorf("event %d tells of no registration: %w", e.Index, errors.Join(err, errMissed))
		}
		k := key{shared(r.Namespace), r.ServiceName}
		if l.heard[k] >= e.Index {
			continue // what was read of the service is newer
		}
		n := newRecord(r)
		switch one.Type {
		case registered:
			l.register(k, &n)
		case deregistered:
			l.deregister(k, n.id)
		}
	}
	l.index = e.Index
	return nil
}

func (l *lane) register(k key, r *record) {
	members, known := l.services[k]
	if old := find(members, r.id); old == nil {
		if l.count >= l.maxInstances || !known && len(l.services) >= l.maxServices {
			l.over++
			return
		}
		l.count++
	}
	if !known {
		l.of.services.Add(1)
	}
	members, changed := put(members, r)
	if l.services[k] = members; changed {
		l.dirty[k] = struct{}{}
	}
}

func (l *lane) deregister(k key, id string) {
	members := l.services[k]
	if find(members, id) == nil {
		return
	}
	l.count--
	members = slices.DeleteFunc(members, func(m *record) bool { return m.id == id })
	if len(members) == 0 {
		l.drop(k)
		return
	}
	l.services[k], l.dirty[k] = members, struct{}{}
}

// flush hands over what changed.
func (l *lane) flush(begun time.Time) {
	problems := map[string][]mesh.Problem{}
	var shards []source.Shard
	for _, k := range sortedKeys(l.dirty) {
		members := l.services[k]
		if len(members) == 0 {
			shards = append(shards, l.of.rows.Gone(k.namespace, k.name))
			l.told(problems, platform.Part(k.namespace, k.name), nil)
			continue
		}
		service, wrong := serviceOf(l.of.name, k, members)
		shard, more := l.of.rows.Rows(service)
		shards = append(shards, shard)
		l.told(problems, platform.Part(k.namespace, k.name), append(wrong, more...))
	}
	clear(l.dirty)
	l.told(problems, "bounds of "+l.namespace, l.tooMuch())
	l.of.hand(l, begun, shards, problems)
}

// told adds what is wrong at a place, where it is not what was told before.
func (l *lane) told(to map[string][]mesh.Problem, place string, list []mesh.Problem) {
	if slices.Equal(list, l.wrong[place]) {
		return
	}
	if to[place] = list; len(list) > 0 {
		l.wrong[place] = list
	} else {
		delete(l.wrong, place)
	}
}

func (l *lane) tooMuch() []mesh.Problem {
	if l.over == 0 {
		return nil
	}
	return []mesh.Problem{{
		Object: mesh.ObjectRef{Kind: l.of.name}, Code: code.TooMuch, Severity: mesh.Error,
		Message: fmt.Sprintf("there are more than %d services or %d instances; %d are left out", l.maxServices, l.maxInstances, l.over),
		Fix:     "set maxServices and maxInstances of the registry",
	}}
}
