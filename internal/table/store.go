package table

import (
	"fmt"
	"runtime"
	"sync"

	"fairway/internal/table/cells"
)

// Options of a Store. The zero value is useful.
type Options struct {
	// Workers is how many goroutines compute the stale rows of one table;
	// 0 means GOMAXPROCS. Results do not depend on it.
	Workers int
	// Invariants makes each turn hash every row before and after it, and panic if a row was written to (law 6). It is for tests: a turn
	// costs as much as all rows.
	Invariants bool
	// Last is the number of a turn before the first one: turns are counted on from it.
	Last uint64
}

// A Store is a set of tables that settle together: one turn, one version.
//
// Declare all tables first, from one goroutine. Then any goroutine may stage
// (Input.Set, Input.Delete) and Read; one goroutine at a time owns the turns
// (Settle, Changes, Forget).
type Store struct {
	workers  int
	parallel int // from how many stale rows on goroutines pay

	// Fixed once the first turn has started.
	nodes  []node // in declaration order, which is a topological order
	byName map[string]node

	// The rows that other goroutines staged for the next turn; guarded by stage.
	// gate is held for reading while a Together runs.
	gate    sync.RWMutex
	stage   sync.Mutex
	pending cells.Heights
	signal  chan struct{}

	// turns is held by the turn in progress, which alone uses due and reads.
	turns sync.Mutex

	// The rest is written by the turn, under mu, and read by Tx under mu.
	mu           sync.RWMutex
	version      uint64
	sealed       bool
	due          cells.Heights // tables with something to do in this turn
	touched      []*core       // tables that hold the changes of the last turn
	reads        cells.Reads   // what reads that were withdrawn leave to be done
	notesVersion uint64
	notesChanged bool
	notesMoved   []noteChange // that the last turn made
	noteTables   []int        // heights of the tables of notes
	doubts       int          // why the next Settle is a turn although nothing was staged; guarded by turns
	checks       cells.Invariants
}

// New returns a store without tables.
func New(o Options) *Store {
	workers := o.Workers
	if workers <= 0 {
		workers = runtime.GOMAXPROCS(0)
	}
	return &Store{
		workers:  workers,
		version:  o.Last,
		parallel: parallelRows,
		checks:   cells.Invariants{On: o.Invariants},
		byName:   map[string]node{},
		signal:   make(chan struct{}, 1),
	}
}

// node is a table as the store sees it.
type node interface {
	meta() *core
	// settle brings the table up to date with the tables above it.
	settle(t *turn)
	// notes takes the notes on the table's rows, to be yielded in order later, also after a turn.
	notes() func(yield func(Note) bool) bool
	// recheck computes a random row again. If it comes out different, the next turn computes it, too.
	recheck() (Divergence, bool)
}

// declare assigns n its place in the order of settlement.
func (s *Store) declare(n node) {
	b := n.meta()
	if s.sealed {
		panic(fmt.Sprintf("table: %q is declared after the first turn", b.Name))
	}
	if s.byName[b.Name] != nil {
		panic(fmt.Sprintf("table: %q is declared twice", b.Name))
	}
	b.Height = len(s.nodes)
	s.nodes = append(s.nodes, n)
	s.byName[b.Name] = n
}

// Together runs fn and puts everything that it stages into the same turn. fn must be short and must not call
// Settle or Together.
func (s *Store) Together(fn func()) {
	s.gate.RLock()
	defer s.gate.RUnlock()
	fn()
}

// Staged is signalled when something has been staged since the last turn began.
// It may fire once more than needed: a turn with nothing staged costs nothing.
func (s *Store) Staged() <-chan struct{} { return s.signal }

// announce tells the turn's owner that the table at height h has staged rows.
// The caller holds s.stage.
func (s *Store) announce(h int) {
	s.pending.Set(h)
	select {
	case s.signal <- struct{}{}:
	default: // already signalled
	}
}
