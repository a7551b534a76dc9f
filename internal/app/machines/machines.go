package machines

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"sync"

	"fairway/internal/app/environment"
	"fairway/internal/compile/input"
	"fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
	"fairway/internal/printable"
	"fairway/internal/source"
	"fairway/internal/store"
	"fairway/internal/store/shared"
	"fairway/internal/table"
)

// Prefixes of the names of records.
const (
	ofMachine = "machine" // then a hash of the proxy's ID
	ofHealth  = "health"  // then namespace and name of a WorkloadEntry
)

// machine is the value of a record of a registered machine.
type machine struct {
	Namespace string `json:"namespace"`
	Group     string `json:"group"`
	Account   string `json:"account"`
	Address   string `json:"address"`
	Network   string `json:"network,omitempty"`
}

// health is the value of a record of an application.
type health struct {
	Healthy bool `json:"healthy"`
}

// Tables are the tables of shared rows, and the inputs for what others share.
type Tables struct {
	Members      *table.Input[mesh.ProxyID, input.Member]
	HealthStored *table.Input[config.Key, bool]
	FileProblems *table.Input[source.Place, []mesh.Problem]
	Healths      *table.Table[config.Key, mesh.HealthVerdict]
}

// Machines shares the machines and health reports of one control plane with others. Make it with New.
type Machines struct {
	tables Tables
	writer string // names this control plane

	mu     sync.Mutex
	own    map[string][]byte // records by name
	shares map[string]*share // by source
	health map[config.Key]map[from]report
}

// records are those of this control plane in one store.
type records interface {
	Set(name string, value []byte)
	Run(ctx context.Context)
}

// share is one store: an etcd, or that of the shared state.
type share struct {
	records records
	reason  string    // why nothing is shared; empty: it is
	bad     shared.ID // the last record that could not be read
	why     string    // why not; empty: all could be
}

// from is a control plane, as one store names it.
type from struct{ source, writer string }

// report is the health of an application as a control plane shares it.
type report struct {
	healthy  bool
	revision int64 // orders the reports of one store
}

// New returns one that shares nothing yet.
func New(t Tables) *Machines {
	return &Machines{
		tables: t, writer: environment.Replica(),
		own: map[string][]byte{}, shares: map[string]*share{}, health: map[config.Key]map[from]report{},
	}
}

// Follow shares the changes of a turn. The owner of the turns calls it. A nil *Machines shares nothing.
func (m *Machines) Follow() {
	if m == nil {
		return
	}
	for c := range table.Changes(m.tables.Members.Table) {
		name := ofMachine + "/" + hashOf(c.Key)
		switch of := c.New; {
		case c.Has && of.Elsewhere || !c.Has && c.Old.Elsewhere:
		case c.Has && of.Standing == mesh.Proven && reachable(of.Address):
			m.set(name, machine(of.Member))
		default:
			m.set(name, nil)
		}
	}
	for c := range table.Changes(m.tables.Healths) {
		name := ofHealth + "/" + c.Key.Namespace + "/" + c.Key.Name
		if c.Has {
			m.set(name, health{c.New.Healthy})
		} else {
			m.set(name, nil)
		}
	}
}

// Count tells what became of this control plane's own machines in a turn, as one of three words: add, update, delete.
func Count(members *table.Table[mesh.ProxyID, input.Member], tell func(event string)) {
	for c := range table.Changes(members) {
		had, has := c.Had && !c.Old.Elsewhere, c.Has && !c.New.Elsewhere
		switch {
		case had && has:
			tell("update")
		case has:
			tell("add")
		case had:
			tell("delete")
		}
	}
}

// hashOf makes the name of a record out of a proxy's ID, which may have any characters.
func hashOf(id mesh.ProxyID) string {
	sum := sha256.Sum256([]byte(id))
	return base64.RawURLEncoding.EncodeToString(sum[:16])
}

// reachable reports whether other machines can reach an address. compile/member says why others are not registered.
func reachable(address string) bool {
	ip, err := netip.ParseAddr(address)
	return err == nil && mesh.ReachOfIP(ip) == mesh.Anywhere
}

// set shares a record; a nil value ends that.
func (m *Machines) set(name string, value any) {
	var text []byte
	if value != nil {
		text, _ = json.Marshal(value) // structs of texts always can
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case text != nil:
		m.own[name] = text
	case m.own[name] == nil: // it was never shared
		return
	default:
		delete(m.own, name)
	}
	for _, s := range m.shares {
		s.records.Set(name, text)
	}
}

// Share returns the records that are shared through one etcd while their Run runs. source names the registry with these options.
func (m *Machines) Share(source string, reach store.Reach, at store.Layout, log *slog.Logger) *shared.Records {
	return shared.New(shared.Options{
		Reach: reach, Layout: at, Writer: m.writer, Log: log,
		Change: func(all []shared.Change) { m.take(source, all) },
		Tell:   func(reason string) { m.tell(source, func(s *share) { s.reason = reason }) },
	})
}

// Run shares through one store until ctx ends.
func (m *Machines) Run(ctx context.Context, source string, records records) {
	m.mu.Lock()
	m.shares[source] = &share{records: records}
	for name, value := range m.own {
		records.Set(name, value)
	}
	m.mu.Unlock()
	records.Run(ctx)
	m.mu.Lock()
	delete(m.shares, source)
	m.mu.Unlock()
	m.tables.FileProblems.Delete(placeOf(source))
}

func placeOf(of string) source.Place { return source.Place{Source: of, Name: "machines"} }

// tell changes the state of a store and reports it.
func (m *Machines) tell(source string, change func(*share)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.shares[source]
	if s == nil {
		return
	}
	was := *s
	if change(s); *s == was {
		return
	}
	object, field := mesh.ObjectRef{Kind: "registries", Name: source}, "shareMachines"
	fix := "make etcd reachable; its user has to read and write keys below PREFIX/.shared/MESH/. Until then the machines of " +
		"other control planes stay as they were read, and other control planes miss new machines of this one"
	if source == stateSource {
		object, field = mesh.ObjectRef{Kind: "pilot-discovery", Name: "state"}, "--state"
		fix = "only control planes write below members/ in the state: remove what others have written there, or share fewer machines"
	}
	var problems []mesh.Problem
	add := func(message, fix string) {
		problems = append(problems, mesh.Problem{
			Object: object, Field: field, Code: code.NotShared, Severity: mesh.Warning, Message: message, Fix: fix,
		})
	}
	if s.reason != "" {
		add(s.reason, fix)
	}
	if s.why != "" {
		add(fmt.Sprintf("record %s of control plane %s cannot be read: %s", s.bad.Name, s.bad.Writer, s.why),
			"delete the record: only control planes write there")
	}
	if len(problems) == 0 {
		m.tables.FileProblems.Delete(placeOf(source))
	} else {
		m.tables.FileProblems.Set(placeOf(source), problems)
	}
}

// take puts the records of other control planes into the tables.
func (m *Machines) take(source string, all []shared.Change) {
	for _, c := range all {
		kind, name, _ := strings.Cut(c.Name, "/")
		var err error
		switch kind {
		case ofMachine:
			err = m.takeMachine(mesh.ProxyID("shared/"+source+"/"+c.Writer+"/"+name), c)
		case ofHealth:
			err = m.takeHealth(from{source, c.Writer}, name, c)
		default: // of a later version
		}
		m.tell(source, func(s *share) {
			switch {
			case err != nil:
				s.bad, s.why = c.ID, printable.Text(err.Error(), printable.Short)
			case s.bad == c.ID: // it is mended, or gone
				s.bad, s.why = shared.ID{}, ""
			}
		})
	}
}

func (m *Machines) takeMachine(id mesh.ProxyID, c shared.Change) error {
	if c.Gone {
		m.tables.Members.Delete(id)
		return nil
	}
	var of machine
	if err := of.read(c.Value); err != nil {
		m.tables.Members.Delete(id)
		return err
	}
	m.tables.Members.Set(id, input.Member{Member: config.Member(of), Standing: mesh.Proven, Elsewhere: true})
	return nil
}

// longestName is the greatest length of a name in Kubernetes.
const longestName = 253

func (of *machine) read(value []byte) error {
	if err := json.Unmarshal(value, of); err != nil {
		return err
	}
	for _, f := range []struct{ name, value string }{{"namespace", of.Namespace}, {"group", of.Group}, {"account", of.Account}} {
		if f.value == "" || !printable.IsName(f.value, longestName) || strings.Contains(f.value, "/") {
			return errors.New(f.name + ": want a name")
		}
	}
	if !printable.Is(of.Network, longestName) {
		return errors.New("network: want a name")
	}
	if !reachable(of.Address) {
		return errors.New("address: want an IP address that other machines reach")
	}
	return nil
}

// takeHealth puts the health report on a WorkloadEntry's application into the tables. If several control planes send reports, the
// newest one counts: the agent has moved from one to the other.
func (m *Machines) takeHealth(by from, of string, c shared.Change) error {
	namespace, name, ok := strings.Cut(of, "/")
	if !ok || name == "" || !printable.IsName(of, 2*longestName) || strings.Contains(name, "/") {
		return errors.New("want health/NAMESPACE/NAME")
	}
	k := config.Key{Kind: config.WorkloadEntry, Namespace: namespace, Name: name}
	var said health
	var err error
	if !c.Gone {
		err = json.Unmarshal(c.Value, &said)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	reports := m.health[k]
	if c.Gone || err != nil {
		delete(reports, by)
	} else {
		if reports == nil {
			reports = map[from]report{}
			m.health[k] = reports
		}
		reports[by] = report{said.Healthy, c.Revision}
	}
	if len(reports) == 0 {
		delete(m.health, k)
		m.tables.HealthStored.Delete(k)
		return err
	}
	var newest report
	for _, r := range reports {
		if r.revision > newest.revision {
			newest = r
		}
	}
	m.tables.HealthStored.Set(k, newest.healthy)
	return err
}
