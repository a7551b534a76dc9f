package epoch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"fairway/test/rig"
)

// stays is a variable that makes this program a fake Envoy that does nothing, with any arguments.
const stays = "FAIRWAY_TEST_STAYS"

func TestMain(m *testing.M) {
	if os.Getenv(stays) != "" {
		select {}
	}
	goleak.VerifyTestMain(m)
}

const bound = 20 * time.Second

// fake is a shell script in Envoy's place: the words in its bootstrap decide how it behaves.
const fake = `#!/bin/sh
case "$*" in
*--hot-restart-version*) echo '[warning] real ones complain of the machine first' >&2; echo "${PROTOCOL:-11.104}" >&2; exit 0;;
*'--mode validate'*) if grep -q refuse "$2"; then echo 'no such field'; exit 1; fi; exit 0;;
esac
state=$(dirname "$0")/state
mkdir -p "$state"
epoch=none
while [ $# -gt 0 ]; do
  case $1 in --config-path) config=$2;; --restart-epoch) epoch=$2;; --base-id) base=$2;; --socket-path) sockets=$2;; esac
  shift
done
echo "start $(cat "$config") epoch $epoch base $base sockets $sockets variables $(env | grep -c -i secret)" >> "$state/log"
if grep -q crash "$config"; then exit 7; fi
if grep -q leave "$config"; then exit 0; fi
if grep -q hang "$config"; then trap "echo asked >> $state/log; exit 0" TERM; while :; do sleep 0.02; done; fi
trap "echo stopped $(cat "$config") >> $state/log; rm -f $state/live.$epoch.$$; exit 0" TERM
if grep -q asks "$config"; then
  trap "sleep 0.2; ls $state/live.$((epoch-1)).* >/dev/null && echo answered >> $state/log; rm -f $state/live.$epoch.$$; exit 0" TERM
fi
: > "$state/live.$epoch.$$"
if [ "$epoch" != none ] && [ "$epoch" -gt 0 ] && ! grep -q asks "$config"; then
  (sleep 0.1; for f in "$state"/live.$((epoch-1)).*; do kill -TERM "${f##*.}"; done) 2>/dev/null &
fi
while :; do
  sleep 0.02
  if [ -e "$state/crash" ]; then rm -f "$state/crash" "$state"/live.*; exit 9; fi
done
`

// world is a supervisor of fakes.
type world struct {
	*Supervisor
	dir  string
	log  *rig.Log
	stop context.CancelFunc
	over chan error
}

func start(t *testing.T, bootstrap string, change func(*Options)) *world {
	t.Helper()
	w := &world{dir: t.TempDir(), log: &rig.Log{}, over: make(chan error, 1)}
	if err := os.WriteFile(w.binary(), []byte(fake), 0o755); err != nil {
		t.Fatal(err)
	}
	o := Options{
		Dir: filepath.Join(w.dir, "proxy"), Memory: t.TempDir(), HotRestart: true, Poll: time.Millisecond, Kill: bound,
		Backoff: time.Millisecond, BackoffMax: 4 * time.Millisecond, LiveWithin: bound,
		Live:   func(_ context.Context, _ Plan, e uint32) bool { return w.liveFiles(e) > 0 },
		Stdout: w.log, Stderr: w.log, Log: slog.New(slog.NewTextHandler(w.log, nil)),
	}
	if change != nil {
		change(&o)
	}
	w.Supervisor = New(o)
	ctx, cancel := context.WithCancel(context.Background())
	w.stop = cancel
	go func() { w.over <- w.Run(ctx, w.with(bootstrap)) }()
	t.Cleanup(func() {
		cancel()
		<-w.Supervisor.over
	})
	return w
}

func (w *world) binary() string { return filepath.Join(w.dir, "envoy") }

func (w *world) with(bootstrap string) Plan {
	return Plan{Binary: w.binary(), Bootstrap: []byte(bootstrap), Suffix: ".json"}
}

// liveFiles counts the fakes that serve as an epoch. One without hot restart calls itself "none".
func (w *world) liveFiles(epoch uint32) int {
	a, _ := filepath.Glob(filepath.Join(w.dir, "state", fmt.Sprintf("live.%d.*", epoch)))
	b, _ := filepath.Glob(filepath.Join(w.dir, "state", "live.none.*"))
	return len(a) + len(b)
}

// history is what the fakes wrote.
func (w *world) history() string {
	text, _ := os.ReadFile(filepath.Join(w.dir, "state", "log"))
	return string(text)
}

// eventually polls, for what processes do in their own time.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	late := time.After(bound)
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !is() {
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("after %s there is still not: %s", bound, what)
		}
	}
}

func (w *world) live(t *testing.T) {
	t.Helper()
	eventually(t, "a live Envoy", func() bool { p := w.State().Serving; return p != nil && p.Live })
}

func (w *world) restart(t *testing.T, bootstrap string) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), bound)
	defer cancel()
	return w.Restart(ctx, w.with(bootstrap), "the test says so")
}

func (w *world) ends(t *testing.T) error {
	t.Helper()
	select {
	case err := <-w.over:
		return err
	case <-time.After(bound):
		t.Fatalf("the supervisor does not end\n%s", w.log)
		return nil
	}
}

func TestEpochsFollowEachOther(t *testing.T) {
	w := start(t, "a", nil)
	w.live(t)
	for i := range 5 {
		if err := w.restart(t, fmt.Sprint("b", i)); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "the last parent's end", func() bool { return w.State().Draining == nil })
	st := w.State()
	if st.Handovers != 5 || st.Starts != 6 || st.Crashes != 0 || st.Serving.Epoch != 5 || !st.Administration {
		t.Errorf("%+v", st)
	}
	files, _ := filepath.Glob(filepath.Join(w.dir, "proxy", "*envoy*"))
	if len(files) != 1 || files[0] != st.Serving.Bootstrap {
		t.Errorf("files %v, want the serving Envoy's only", files)
	}
	w.stop()
	if err := w.ends(t); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(w.dir, "proxy")); err == nil {
		t.Error("the folder is left behind")
	}
	if left, _ := filepath.Glob(filepath.Join(w.o.Memory, "*")); len(left) != 0 {
		t.Errorf("left in the memory's folder: %v", left)
	}
}

func TestARefusedPlanChangesNothing(t *testing.T) {
	w := start(t, "a", nil)
	w.live(t)
	before := w.State()
	err := w.restart(t, "refuse")
	var mistake *PlanError
	if !errors.As(err, &mistake) || !strings.Contains(err.Error(), "no such field") {
		t.Errorf("error %v", err)
	}
	if now := w.State(); now.Serving.Pid != before.Serving.Pid || now.Starts != 1 {
		t.Errorf("%+v", now)
	}
}

// TestAFailedEpochLeavesItsParent: the mark in the memory is taken away, so the next epoch is a hot restart again.
func TestAFailedEpochLeavesItsParent(t *testing.T) {
	for name, bootstrap := range map[string]string{"ended": "crash", "never live": "hang"} {
		t.Run(name, func(t *testing.T) {
			w := start(t, "a", func(o *Options) {
				if name == "never live" {
					o.LiveWithin = 50 * time.Millisecond
				}
			})
			w.live(t)
			memory := memoryFile(w.o.Memory, uint32(w.State().Serving.BaseID))
			content := bytes.Repeat([]byte{0}, 104)
			content[0], content[8], content[96] = 104, 11, 1
			if err := os.WriteFile(memory, content, 0o600); err != nil {
				t.Fatal(err)
			}
			before := w.State()
			if err := w.restart(t, bootstrap); err == nil {
				t.Fatal("no error")
			}
			now := w.State()
			if now.Serving.Pid != before.Serving.Pid || now.Failed != 1 || now.Starting != nil {
				t.Errorf("%+v", now)
			}
			content[96] = 0
			if got, _ := os.ReadFile(memory); !bytes.Equal(got, content) {
				t.Errorf("memory % x", got)
			}
			if strings.Contains(w.history(), "asked") {
				t.Error("a failed epoch was asked to end: Envoy would have its parent end first")
			}
			if name == "ended" { // with a bound of 50 ms a shell may be late again
				if err := w.restart(t, "c"); err != nil {
					t.Fatal(err)
				}
				if !strings.Contains(w.history(), "start c epoch 1 base "+fmt.Sprint(before.Serving.BaseID)) {
					t.Errorf("history:\n%s", w.history())
				}
			}
		})
	}
}

// TestWithoutTheMemoryTheNextIsAnotherFamily: where the mark cannot be taken away, the next restart is a full one with a new base id.
func TestWithoutTheMemoryTheNextIsAnotherFamily(t *testing.T) {
	quiesced := 0
	w := start(t, "a", func(o *Options) { o.Quiesce = func(context.Context) { quiesced++ } })
	w.live(t)
	base := w.State().Serving.BaseID
	if err := w.restart(t, "crash"); err == nil {
		t.Fatal("no error")
	}
	if err := w.restart(t, "c"); err != nil {
		t.Fatal(err)
	}
	w.live(t)
	st := w.State()
	if st.Serving.BaseID == base || st.Serving.Epoch != 0 || quiesced != 1 {
		t.Errorf("%+v, quiesced %d times", st.Serving, quiesced)
	}
}

func TestCrashesAreAnsweredWithinABudget(t *testing.T) {
	w := start(t, "crash", func(o *Options) { o.Budget = 3 })
	err := w.ends(t)
	var exit *ExitError
	if !errors.As(err, &exit) || exit.Code != 7 {
		t.Errorf("error %v, want code 7", err)
	}
	if got := strings.Count(w.history(), "start "); got != 4 {
		t.Errorf("%d starts, want 1 + 3:\n%s", got, w.history())
	}
	for _, wait := range []string{"in=1ms", "in=2ms", "in=4ms"} {
		if !strings.Contains(w.log.String(), wait) {
			t.Errorf("no wait %q in\n%s", wait, w.log)
		}
	}
	if files, _ := filepath.Glob(filepath.Join(w.dir, "proxy", "*envoy*")); len(files) != 1 {
		t.Errorf("files %v, want the last bootstrap, which the log names", files)
	}
}

func TestACrashIsAnsweredWithANewBaseID(t *testing.T) {
	w := start(t, "a", nil)
	w.live(t)
	before := w.State().Serving
	os.WriteFile(filepath.Join(w.dir, "state", "crash"), nil, 0o600)
	eventually(t, "another live Envoy", func() bool { p := w.State().Serving; return p != nil && p.Pid != before.Pid && p.Live })
	if st := w.State(); st.Serving.BaseID == before.BaseID || st.Crashes != 1 {
		t.Errorf("%+v", st)
	}
}

// TestTheLastWorkingBootstrapIsTried: what replaced it crashes until half the budget is spent.
func TestTheLastWorkingBootstrapIsTried(t *testing.T) {
	w := start(t, "a", func(o *Options) { o.HotRestart, o.Budget = false, 4 })
	w.live(t)
	if err := w.restart(t, "crash"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the first bootstrap again", func() bool { return strings.Count(w.history(), "start a ") == 2 })
	w.live(t)
	if got := strings.Count(w.history(), "start crash"); got != 3 {
		t.Errorf("%d starts of the crashing one, want 3\n%s", got, w.history())
	}
}

func TestARestartDuringTheWaitAfterACrash(t *testing.T) {
	w := start(t, "crash", func(o *Options) { o.Backoff, o.BackoffMax = bound, bound })
	eventually(t, "a crash", func() bool { return !w.State().NextStart.IsZero() })
	if err := w.restart(t, "a"); err != nil {
		t.Fatal(err)
	}
	w.live(t)
}

func TestAnotherProtocolIsNoHotRestart(t *testing.T) {
	w := start(t, "a", nil)
	w.live(t)
	other := strings.Replace(fake, "11.104", "12.104", 1)
	aside := w.binary() + ".new"
	os.WriteFile(aside, []byte(other), 0o755)
	if err := os.Rename(aside, w.binary()); err != nil {
		t.Fatal(err)
	}
	if err := w.restart(t, "a"); err != nil {
		t.Fatal(err)
	}
	w.live(t)
	if st := w.State(); st.Handovers != 0 || st.Starts != 2 || st.Serving.Epoch != 0 {
		t.Errorf("%+v", st)
	}
}

func TestHoldEndsRestarts(t *testing.T) {
	w := start(t, "a", nil)
	w.live(t)
	w.Hold(t.Context())
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := w.Restart(ctx, w.with("b"), "too late"); err == nil {
		t.Error("restarted")
	}
	w.stop()
	if err := w.ends(t); err != nil {
		t.Error(err)
	}
	if err := w.restart(t, "c"); !errors.Is(err, ErrOver) {
		t.Errorf("error %v, want ErrOver", err)
	}
}

func TestTimesByConstruction(t *testing.T) {
	o := Options{Drain: 1500 * time.Millisecond, ParentShutdown: time.Second}.settled()
	if o.Drain != 2*time.Second || o.ParentShutdown <= o.Drain {
		t.Errorf("drain %s, parent shutdown %s", o.Drain, o.ParentShutdown)
	}
}
