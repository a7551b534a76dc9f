package rig

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Memory is what a process takes, as the system counts it, in bytes.
type Memory struct {
	Resident int64 // all that is in memory, the program's text included
	Own      int64 // of that, what no other process can share
	Peak     int64 // the most that was resident so far
}

func (m Memory) String() string {
	return fmt.Sprintf("%.1f MB (%.1f MB of its own, %d MB at its peak)", float64(m.Resident)/(1<<20), float64(m.Own)/(1<<20), m.Peak>>20)
}

// Memory is what the process takes now.
func (p *Process) Memory(t testing.TB) Memory {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.Pid()))
	if err != nil {
		t.Fatal(err)
	}
	kilobytes := func(name string) (n int64) {
		_, rest, _ := strings.Cut(string(text), "\n"+name+":")
		if _, err := fmt.Sscan(rest, &n); err != nil {
			t.Fatalf("%s of %s: %v", name, p.name, err)
		}
		return n << 10
	}
	return Memory{kilobytes("RssAnon") + kilobytes("RssFile") + kilobytes("RssShmem"), kilobytes("RssAnon"), kilobytes("VmHWM")}
}

// KeepsBelow waits until the process takes no more than own bytes of its own: after a burst of work, a program returns memory once it has
// been idle for some seconds. At no moment may it have taken more than peak bytes in all.
func (p *Process) KeepsBelow(t testing.TB, own, peak int64) (m Memory) {
	t.Helper()
	Eventually(t, func() error {
		if m = p.Memory(t); m.Own > own {
			return fmt.Errorf("%s takes %v; allowed are %d MB of its own", p.name, m, own>>20)
		}
		return nil
	})
	if m.Peak > peak {
		t.Errorf("%s took %d MB at its peak; allowed are %d MB", p.name, m.Peak>>20, peak>>20)
	}
	return m
}

// CPU is the processor time that the process's threads have taken so far.
func (p *Process) CPU(t testing.TB) (sum time.Duration) {
	t.Helper()
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", p.Pid()))
	if err != nil || len(threads) == 0 {
		t.Fatalf("%s has no threads: %v", p.name, err)
	}
	for _, file := range threads {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // a thread that has just ended
		}
		var n int64
		if _, err := fmt.Sscan(string(text), &n); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		sum += time.Duration(n)
	}
	return sum
}
