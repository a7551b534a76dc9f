package consul

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"fairway/internal/source/platform"
)

// Bounds of an answer. Anything beyond them is not decoded.
const (
	mostServices = 100_000  // names, however many are kept
	mostNames    = 32 << 20 // bytes of them
	mostEntries  = 60_000   // of one service
	mostEntry    = 1 << 20  // bytes of an instance
	mostNodes    = 50_000   // that say something of their health
	mostStates   = 16 << 20 // bytes of their names
	mostDefaults = 100_000
	mostAnswer   = 64 // MiB, by default
)

// decoded is what a query reads, as it comes.
type decoded interface {
	read(s *platform.Stream) error
}

func readInto(to decoded) func(io.Reader) error {
	return func(from io.Reader) error { return to.read(platform.NewStream(from)) }
}

// nameList is an answer of /v1/catalog/services: the names alone.
type nameList struct {
	names map[string]bool
	bytes int
	most  int
	over  int // how many there were beyond the bounds
}

func (l *nameList) read(s *platform.Stream) error {
	l.names = map[string]bool{}
	long, err := s.Object(func(name string) error {
		if len(l.names) >= l.most || l.bytes+len(name) > mostNames {
			l.over++
		} else {
			l.bytes += len(name)
			l.names[strings.Clone(name)] = true
		}
		return s.Skip()
	})
	l.over += long
	return err
}

// entries is an answer of /v1/health/service/NAME.
type entries struct {
	kept  []entry
	most  int64        // bytes that are kept
	large func() error // called once there are many: one such answer is read at a time
	bytes int64
	full  bool // there was more, and nothing is kept
	over  int  // instances that were too large
}

// manyEntries is how many of them are read beside other answers.
const manyEntries = 2000

func (e *entries) read(s *platform.Stream) error {
	n := 0
	return s.Array(func() error {
		if n++; n > mostEntries {
			return fmt.Errorf("more than %d entries", mostEntries)
		}
		if n == manyEntries && e.large != nil {
			if err := e.large(); err != nil {
				return err
			}
		}
		if e.full {
			return s.Skip()
		}
		var one entry
		if ok, err := s.Decode(&one, mostEntry); err != nil || !ok {
			e.over++
			return err
		}
		if e.bytes += one.trim(); e.bytes > e.most {
			e.full, e.kept = true, nil
			return nil
		}
		e.kept = append(e.kept, one)
		return nil
	})
}

// trim removes the fields that nothing is built from, and estimates the size of the rest.
func (e *entry) trim() (bytes int64) {
	words, length := 0, 0
	count := func(all ...string) {
		for _, s := range all {
			words, length = words+1, length+len(s)
		}
	}
	sv := &e.Service
	sv.Tags = slices.DeleteFunc(sv.Tags, func(tag string) bool {
		k, v := labelOf(tag)
		return !e.keeps(k, v)
	})
	count(sv.Tags...)
	for k, v := range sv.Meta {
		if !e.keeps(k, v) {
			delete(sv.Meta, k)
			continue
		}
		count(k, v)
	}
	var node map[string]string // most instances have none
	for _, k := range reserved {
		if v := e.Node.Meta[k]; v != "" && e.keeps(k, v) {
			if node == nil {
				node = map[string]string{}
			}
			node[k] = v
			count(k, v)
		}
	}
	e.Node.Meta = node
	if len(sv.Ports) > platform.MaxLabels+1 {
		sv.Ports = sv.Ports[:platform.MaxLabels+1] // more than a service may have
	}
	for _, p := range sv.Ports {
		count(p.Name)
	}
	e.Checks = slices.DeleteFunc(e.Checks, func(c check) bool { return c.Status != warning && c.Status != critical && !c.quiet() })
	for i := range e.Checks {
		e.Checks[i].Status = strings.Clone(e.Checks[i].Status)
		count(e.Checks[i].CheckID)
	}
	for k, t := range sv.TaggedAddresses {
		count(k, t.Address)
	}
	count(e.Node.Node, e.Node.Address, e.Node.Datacenter, sv.ID, sv.Service, sv.Address)
	return platform.WordsCost(words, length)
}

// reserved are keys of metadata that say where an instance is and how it is served.
var reserved = []string{metaRegion, metaZone, metaSubZone, metaNetwork, metaIdentity, metaExternal}

// keeps reports whether a label or metadata can be of use, and counts it if it cannot.
func (e *entry) keeps(k, v string) bool {
	if platform.Readable(k, v, reserved...) {
		return true
	}
	e.unreadable++
	return false
}

// entry holds the fields of an instance that are read. The client library would decode more of them.
type entry struct {
	Node struct {
		Node, Address, Datacenter string
		Meta                      map[string]string
		Locality                  *locality
	}
	Service struct {
		Kind, ID, Service, Address string
		Port                       int
		Ports                      []struct {
			Name string
			Port int
		}
		Tags            []string
		Meta            map[string]string
		TaggedAddresses map[string]struct {
			Address string
			Port    int
		}
		Weights  *struct{ Passing, Warning int }
		Locality *locality
	}
	Checks []check

	unreadable int // labels and metadata that were taken away
}

type locality struct{ Region, Zone string }

type check struct{ CheckID, Status string }

// quiet reports whether the check is there because somebody wants quiet.
func (c check) quiet() bool {
	return c.CheckID == nodeMaintenance || strings.HasPrefix(c.CheckID, serviceMaintenance)
}

// checks is an answer of /v1/health/state/STATE.
type checks struct{ all []checkOf }

type checkOf struct{ Node, CheckID, ServiceName string }

func (c *checks) read(s *platform.Stream) error {
	bytes := 0
	return readAll(s, mostNodes, func(one checkOf) error {
		if bytes += len(one.Node) + len(one.CheckID) + len(one.ServiceName); bytes > mostStates {
			return fmt.Errorf("names of more than %d bytes", mostStates)
		}
		c.all = append(c.all, one)
		return nil
	})
}

// protocols is an answer of /v1/config/service-defaults: the protocol of each service that has one.
type protocols struct{ by map[string]string }

func (p *protocols) read(s *platform.Stream) error {
	p.by = map[string]string{}
	return readAll(s, mostDefaults, func(one struct{ Name, Protocol string }) error {
		if one.Protocol != "" && len(one.Name)+len(one.Protocol) <= mostWord*2 {
			p.by[one.Name] = one.Protocol
		}
		return nil
	})
}

// readAll reads an array of no more than so many.
func readAll[T any](s *platform.Stream, most int, take func(T) error) error {
	n := 0
	return s.Array(func() error {
		if n++; n > most {
			return fmt.Errorf("more than %d entries", most)
		}
		var one T
		if ok, err := s.Decode(&one, mostEntry); err != nil || !ok {
			return err
		}
		return take(one)
	})
}

// anything is an answer that is skipped, because only its headers are needed.
type anything struct{}

func (anything) read(s *platform.Stream) error { return s.Skip() }

// leader is an answer of /v1/status/leader.
type leader struct{ address string }

func (l *leader) read(s *platform.Stream) error {
	_, err := s.Decode(&l.address, mostEntry)
	return err
}
