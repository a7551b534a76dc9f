package epoch

import "time"

// State is a copy of a Supervisor's state.
type State struct {
	Serving  *Process // has the listeners; nil while there is none
	Starting *Process // a new epoch that is not live yet
	Draining *Process // the parent of Serving
	// Administration reports whether the serving Envoy has the administration's port. After a failed epoch no Envoy has it until
	// the next one is live.
	Administration bool

	Starts    int // Envoys that were started
	Handovers int // hot restarts that went well
	Failed    int // epochs that never served while their parent did
	Crashes   int // Envoys that ended by themselves with an error
	InARow    int // crashes since the last steady run
	LastError string
	// NextStart is when a crashed Envoy, or a failed hot restart, is tried again; zero: no start is due.
	NextStart time.Time
}

// Process is one Envoy.
type Process struct {
	Epoch     uint32
	BaseID    int64 // -1: it cannot be hot-restarted
	Pid       int
	Live      bool // it has served
	Since     time.Time
	Bootstrap string // file
}

func (p *process) describe() *Process {
	if p == nil {
		return nil
	}
	id := int64(-1)
	if p.family != nil {
		id = int64(p.family.baseID)
	}
	return &Process{Epoch: p.epoch, BaseID: id, Pid: p.pid, Live: p.live, Since: p.since, Bootstrap: p.file}
}

// State returns a snapshot. Any goroutine may call it.
func (s *Supervisor) State() State {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state
}

// note changes the counted part of the state and publishes the Envoys that run. Only Run's goroutine calls it.
func (s *Supervisor) note(change func(*State)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if change != nil {
		change(&s.state)
	}
	s.state.Serving, s.state.Starting, s.state.Draining = s.serving.describe(), s.starting.describe(), s.parent.describe()
	s.state.Administration = s.serving != nil && !s.adminClosed
	if s.serving != nil {
		s.plan = s.serving.plan
	}
}

// Plan returns the plan of the Envoy that serves, or served last.
func (s *Supervisor) Plan() Plan {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.plan
}
