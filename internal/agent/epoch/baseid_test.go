package epoch

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"fairway/test/rig"
)

// ids is where a test claims: a folder that all users share, as /dev/shm is, and one of its own.
func ids(t *testing.T) bases {
	t.Helper()
	b := bases{memory: rig.Folder(t), own: t.TempDir()}
	if err := os.Chmod(b.memory, 0o777|os.ModeSticky); err != nil {
		t.Fatal(err)
	}
	return b
}

// takenBy is the error of a claim that must fail.
func takenBy(t *testing.T, b bases, id uint32) baseIDInUseError {
	t.Helper()
	f, err := b.claim(id)
	var taken *baseIDInUseError
	if !errors.As(err, &taken) {
		t.Errorf("claim %d: %v, want that it is taken", id, err)
		if err == nil {
			f.release()
		}
		return baseIDInUseError{}
	}
	return *taken
}

func TestBaseIDsAreNotShared(t *testing.T) {
	b := ids(t)
	first, _, _, err := b.claimAny(700)
	if err != nil {
		t.Fatal(err)
	}
	if by := takenBy(t, b, first.baseID); by.foreign || !strings.Contains(by.by, fmt.Sprintf("locked by process %d", os.Getpid())) {
		t.Errorf("claimed twice: %+v", by)
	}
	second, strangers, _, err := b.claimAny(700)
	if err != nil || second.baseID == first.baseID || strangers != 0 {
		t.Fatalf("%v, %d, %v", second, strangers, err)
	}
	second.release()
	first.release()
	os.WriteFile(memoryFile(b.memory, first.baseID), nil, 0o600)
	if by := takenBy(t, b, first.baseID); by.foreign || !strings.Contains(by.by, "no agent started") {
		t.Errorf("claimed over somebody's memory: %+v", by)
	}
	if left, _ := filepath.Glob(filepath.Join(b.memory, "fairway*")); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
	// The lock that a killed agent left behind is used again.
	os.WriteFile(filepath.Join(b.memory, fmt.Sprintf("fairway_base_id_%d", first.baseID)), nil, 0o600)
	again, err := b.claim(first.baseID)
	if err != nil {
		t.Fatal(err)
	}
	again.release()
}

// TestEnvoysKeepTheirBaseID: while an Envoy runs without its agent, other agents cannot claim its base id, and its lock is free for
// the agent that takes it over.
func TestEnvoysKeepTheirBaseID(t *testing.T) {
	b := ids(t)
	const id = 701
	file := filepath.Join(t.TempDir(), bootstrapName+"0.json")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	envoy := exec.Command(os.Args[0])
	envoy.Args = []string{os.Args[0], "--config-path", file, "--restart-epoch", "0", "--base-id", fmt.Sprint(id)}
	envoy.Env = []string{stays + "=1"}
	if err := envoy.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		envoy.Process.Kill()
		envoy.Wait()
	}()
	eventually(t, "an Envoy", func() bool { return runningIDs()[id] == envoy.Process.Pid })
	os.WriteFile(b.lockFile(id), nil, 0o600) // as its agent leaves it when killed
	if by := takenBy(t, b, id); by.foreign || !strings.Contains(by.by, fmt.Sprintf("process %d is an Envoy", envoy.Process.Pid)) {
		t.Errorf("claimed under an Envoy: %+v", by)
	}
	other, _, _, err := b.claimAny(id)
	if err != nil || other.baseID == id {
		t.Fatalf("%+v, %v", other, err)
	}
	other.release()
	f, err := b.reclaim(orphan{baseID: id})
	if err != nil {
		t.Fatal(err)
	}
	f.release()
}

// TestStrangersTakeNames: claimAny skips and reports names that another user has taken, in every possible way. Abstract sockets of any
// user have no effect.
func TestStrangersTakeNames(t *testing.T) {
	b := ids(t)
	long := bases{memory: b.memory, own: filepath.Join(b.own, strings.Repeat("long", 30))}
	if err := os.Mkdir(long.own, 0o700); err != nil {
		t.Fatal(err)
	}
	at := func(name string) string { return filepath.Join(b.memory, name) }
	os.WriteFile(at("fairway_base_id_2"), nil, 0o600) // ours, of an agent that was killed
	err := rig.AsUser(t, rig.Nobody, func() error {
		return errors.Join(os.WriteFile(at("fairway_base_id_1"), nil, 0o666), os.Chmod(at("fairway_base_id_1"), 0o666),
			os.WriteFile(at("envoy_shared_memory_20"), nil, 0o666), os.Symlink(at("elsewhere"), at("fairway_base_id_3")),
			os.Mkdir(at("fairway_base_id_4"), 0o777), syscall.Mkfifo(at("fairway_base_id_5"), 0o666),
			os.Symlink(at("elsewhere"), at("envoy_shared_memory_60")), os.WriteFile(at("fairway_base_id_7"), nil, 0o600),
			os.Mkdir(at("fairway_hot_restart_8"), 0o777), os.Symlink(b.own, at("fairway_hot_restart_9")))
	})
	if err != nil {
		t.Fatal(err)
	}
	abstract, err := net.Listen("unix", "@fairway_base_id_10")
	if err != nil {
		t.Skip(err)
	}
	defer abstract.Close()
	for id := uint32(1); id < 10; id++ {
		in := b
		if id > 7 {
			in = long
		}
		if by := takenBy(t, in, id); !by.foreign || !strings.Contains(by.by, "belongs to user 65534") {
			t.Errorf("base id %d: %+v", id, by)
		}
	}
	f, strangers, first, err := long.claimAny(1)
	if err != nil || f.baseID != 10 || strangers != 9 || !strings.Contains(first.Error(), "base id 1 is taken: ") {
		t.Fatalf("%+v, %d, %v, %v", f, strangers, first, err)
	}
	defer f.release()
	if got := at("fairway_hot_restart_10/envoy"); f.sockets != got {
		t.Errorf("sockets at %s, want %s", f.sockets, got)
	}
	if _, err := os.Lstat(at("elsewhere")); err == nil {
		t.Error("a link was followed")
	}
}

// TestNobodyIsStopped, be it that he took the base id that was asked for, or all there are, or that the memory's folder is his.
func TestNobodyIsStopped(t *testing.T) {
	five := uint32(5)
	for name, c := range map[string]struct {
		asked *uint32
		take  func(dir string) error
		said  string
		hot   bool
	}{
		"asked for": {
			&five,
			func(dir string) error { return os.WriteFile(filepath.Join(dir, "fairway_base_id_5"), nil, 0o600) },
			"the requested base id is in use",
			true,
		},
		"some": {
			nil,
			func(dir string) error { return os.WriteFile(filepath.Join(dir, "envoy_shared_memory_10"), nil, 0o600) },
			"another user has taken names",
			true,
		},
		"all": {nil, func(dir string) error { return syscall.Rmdir(dir) }, "starts without hot restart", false},
	} {
		t.Run(name, func(t *testing.T) {
			memory := filepath.Join(rig.Folder(t), "shm")
			err := errors.Join(os.Mkdir(memory, 0o777), os.Chmod(memory, 0o777|os.ModeSticky), os.Chmod(filepath.Dir(memory), 0o777))
			if err != nil {
				t.Fatal(err)
			}
			if name == "all" {
				err = c.take(memory)
			} else {
				err = rig.AsUser(t, rig.Nobody, func() error { return c.take(memory) })
			}
			if err != nil {
				t.Fatal(err)
			}
			w := start(t, "a", func(o *Options) { o.Memory, o.BaseID = memory, c.asked })
			w.live(t)
			if hot := w.State().Serving.BaseID >= 0; hot != c.hot || !strings.Contains(w.log.String(), c.said) {
				t.Errorf("hot restart %t, want %t and %q in\n%s", hot, c.hot, c.said, w.log)
			}
		})
	}
}

// TestWhereSocketsAre: sockets are in the agent's folder, if its path is short and no other user can rename it; else beside the
// memory. Their folder is always for this user alone.
func TestWhereSocketsAre(t *testing.T) {
	for name, c := range map[string]struct {
		change func(own string) string // the folder to use
		own    bool
	}{
		"as it is":         {func(own string) string { return own }, true},
		"open to all":      {func(own string) string { os.Chmod(own, 0o777); return own }, false},
		"shared, sticky":   {func(own string) string { os.Chmod(own, 0o777|os.ModeSticky); return own }, true},
		"below an open":    {func(own string) string { os.Mkdir(own+"/a", 0o700); os.Chmod(own, 0o777); return own + "/a" }, false},
		"long":             {func(own string) string { own += "/" + strings.Repeat("x", 90); os.Mkdir(own, 0o700); return own }, false},
		"with braces":      {func(own string) string { own += "/{a}"; os.Mkdir(own, 0o700); return own }, false},
		"taken by a file":  {func(own string) string { os.WriteFile(own+"/hot-restart", nil, 0o600); return own }, false},
		"a lax one before": {func(own string) string { os.Mkdir(own+"/hot-restart", 0o755); return own }, true},
	} {
		t.Run(name, func(t *testing.T) {
			b := bases{memory: t.TempDir(), own: filepath.Join(t.TempDir(), "p")}
			os.Mkdir(b.own, 0o700)
			b.own = c.change(b.own)
			f, err := b.claim(77)
			if err != nil {
				t.Fatal(err)
			}
			defer f.release()
			folder := filepath.Dir(f.sockets)
			if in := strings.HasPrefix(folder, b.own+"/"); in != c.own {
				t.Errorf("sockets at %s; the folder's own: want %t", f.sockets, c.own)
			}
			if info, err := os.Lstat(folder); err != nil || info.Mode() != os.ModeDir|0o700 {
				t.Errorf("the sockets' folder: %v, %v", info, err)
			}
		})
	}
}

// TestDeadSocketsAreRemoved, and those in use are not.
func TestDeadSocketsAreRemoved(t *testing.T) {
	b := ids(t)
	folder := filepath.Join(b.own, socketDir)
	os.Mkdir(folder, 0o700)
	made := map[string]*net.UnixConn{}
	for _, name := range []string{"envoy_parent_70", "envoy_parent_80"} {
		conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(folder, name), Net: "unixgram"})
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		made[name] = conn
	}
	made["envoy_parent_70"].Close() // the file stays
	f, err := b.claim(9)
	if err != nil {
		t.Fatal(err)
	}
	defer f.release()
	left, _ := filepath.Glob(filepath.Join(folder, "*"))
	if len(left) != 1 || filepath.Base(left[0]) != "envoy_parent_80" {
		t.Errorf("left: %v", left)
	}
}
