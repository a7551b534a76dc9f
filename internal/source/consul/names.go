package consul

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
	"fairway/internal/printable"
	"fairway/internal/source/budget"
	"fairway/internal/source/platform"
)

// followNames follows the list of services.
func (s *Source) followNames(ctx context.Context) {
	var f following
	var highest uint64
	for {
		at, err := f.server(ctx, s.line)
		if err != nil {
			return
		}
		l := nameList{most: min(s.o.Limits.Bounds().Things, mostServices)}
		q := query{path: "/v1/catalog/services", into: &l, wait: s.untilKept()} // the cache does not wait for this query
		meta, err := f.ask(ctx, s.line, at, q)
		begun := time.Now()
		if err == nil && meta.ResultsFilteredByACLs && len(l.names) == 0 {
			err = fmt.Errorf("Consul at %s: its token may read no service; see tokenFile", at.url) //nolint:staticcheck // a name
		}
		if err != nil {
			s.failed(ctx, at, err)
			f.of = 0
			continue
		}
		older := meta.LastIndex < highest
		changed := f.answered(at, meta)
		highest = meta.LastIndex
		s.list(f.lastQuestion, begun, l, older, meta.ResultsFilteredByACLs)
		if changed {
			s.wakeSearch()
		}
		if !s.keeps() {
			s.out.Fresh()
		}
		f.next(ctx, changed, 25*time.Millisecond)
	}
}

// list takes the names of all services. older reports whether they are of an index that is lower than it was.
func (s *Source) list(asked, begun time.Time, l nameList, older, filtered bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	missing := 0
	for name := range s.services {
		if !l.names[name] {
			missing++
		}
	}
	if older {
		s.lose(lostIndex)
	}
	over := !s.keep.IsZero() && !begun.Before(s.keep)
	if over {
		s.keep = time.Time{}
	} else if platform.TooManyMissing(len(s.services), missing) {
		s.lose(fmt.Sprintf("Consul lists no more than %d of %d services", len(s.services)-missing, len(s.services)))
	}
	for name, v := range s.services {
		if !l.names[name] && s.keep.IsZero() {
			s.drop(begun, v)
		} else if v.left && s.keep.IsZero() && v.changed.Before(asked) {
			s.empty(begun, v, nil)
		} else if over && v.kept {
			v.kept = false
			s.refetch(v)
		}
	}
	for name := range s.invalidNames {
		if !l.names[name] {
			delete(s.invalidNames, name)
			s.ledger.Remove(name)
			s.out.Put(begun, nil, map[string][]mesh.Problem{"service " + name: nil})
		}
	}
	if s.most == 0 {
		s.most = s.watches()
	}
	for name := range l.names {
		if name == "consul" || s.services[name] != nil || s.isStrange(begun, name) { // clients do not call Consul's own servers
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
	s.reportList(begun, l, filtered)
	s.maybeSynced(begun)
}

// isStrange reports whether no host can be made of a name, and then adds a problem. Such a service is not queried: Consul accepts any
// name, but answers a request with some of them in its path by 400, or redirects it.
func (s *Source) isStrange(begun time.Time, name string) bool {
	if s.invalidNames[name] {
		return true
	}
	_, found := s.tr.Rows(&platform.Service{
		Name: name, Namespace: s.o.ConsulNamespace, Vars: map[string]string{"datacenter": cmp.Or(s.o.Datacenter, "dc")},
	})
	if strings.Trim(name, ".") == "" {
		found = []mesh.Problem{{
			Object: mesh.ObjectRef{Kind: s.name, Name: printable.Text(name, printable.Short)}, Field: "name", Code: code.BadName,
			Severity: mesh.Error, Message: "this is not a name; the service is left out",
		}}
	}
	if len(found) > 0 {
		s.invalidNames[name] = true
		s.ledger.Set(name, budget.Cost{Bytes: int64(2 * len(name))})
		s.out.Put(begun, nil, map[string][]mesh.Problem{"service " + name: found})
	}
	return len(found) > 0
}

// placeList is the place of the problems of the whole list.
const placeList = "catalog"

func (s *Source) reportList(begun time.Time, l nameList, filtered bool) {
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
