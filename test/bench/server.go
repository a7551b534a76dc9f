package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// server is one pilot-discovery under measurement, a process of its own so that its CPU and memory are its alone.
type server struct {
	cmd                     *exec.Cmd
	grpcAddr, http, monitor string
	started                 time.Time
	log                     *os.File
}

func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}

func startServer(binary, dir, logPath string, more ...string) (*server, error) {
	var addrs [3]string
	for i := range addrs {
		a, err := freePort()
		if err != nil {
			return nil, err
		}
		addrs[i] = a
	}
	log, err := os.OpenFile(logPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	s := &server{grpcAddr: addrs[0], http: addrs[1], monitor: addrs[2], log: log}
	s.cmd = exec.Command(binary, append([]string{
		"discovery", "--configDir", dir, "--grpcAddr", s.grpcAddr, "--httpAddr", s.http,
		"--monitoringAddr", s.monitor, "--secureGRPCAddr", "", "--httpsAddr", "",
	}, more...)...)
	s.cmd.Stdout, s.cmd.Stderr = log, log
	s.started = time.Now()
	if err := s.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", binary, err)
	}
	return s, nil
}

// ready waits until the server says it has synced.
func (s *server) ready(ctx context.Context) error {
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.http+"/ready", nil)
		if err != nil {
			return err
		}
		if resp, err := http.DefaultClient.Do(req); err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("server not ready: %w (see %s)", ctx.Err(), s.log.Name())
		}
	}
}

// stop ends the server and waits for it.
func (s *server) stop() error {
	defer s.log.Close()
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() { done <- s.cmd.Wait() }()
	select {
	case err := <-done:
		return err
	case <-time.After(30 * time.Second):
		return errors.Join(errors.New("server did not stop within 30 s"), s.cmd.Process.Kill(), <-done)
	}
}

// cpu is the server's user and system time so far, from the scheduler's own nanosecond count where the kernel keeps one.
func (s *server) cpu() (time.Duration, error) {
	tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", s.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	var sum time.Duration
	for _, t := range tasks {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/schedstat", s.cmd.Process.Pid, t.Name()))
		if err != nil {
			continue // the thread ended meanwhile
		}
		ns, err := strconv.ParseInt(strings.Fields(string(text))[0], 10, 64)
		if err != nil {
			return 0, err
		}
		sum += time.Duration(ns)
	}
	return sum, nil
}

// memory is what the server takes of the machine's memory, in bytes.
type memory struct {
	rss, peak int64
	file      int64 // of rss: pages of files, which is the program's own
}

// memory reads what the server takes now, and took at its peak.
func (s *server) memory() (m memory, err error) {
	f, err := os.Open(fmt.Sprintf("/proc/%d/status", s.cmd.Process.Pid))
	if err != nil {
		return m, err
	}
	defer f.Close()
	for sc := bufio.NewScanner(f); sc.Scan(); {
		fields := strings.Fields(sc.Text())
		if len(fields) < 2 {
			continue
		}
		kb, _ := strconv.ParseInt(fields[1], 10, 64)
		switch fields[0] {
		case "VmRSS:":
			m.rss = kb << 10
		case "RssFile:":
			m.file = kb << 10
		case "VmHWM:":
			m.peak = kb << 10
		}
	}
	return m, nil
}

// metric sums all samples of a metric.
func (s *server) metric(name string) (float64, error) {
	resp, err := http.Get("http://" + s.monitor + "/metrics")
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err
	}
	var sum float64
	found := false
	for line := range strings.Lines(string(text)) {
		rest, ok := strings.CutPrefix(line, name)
		if !ok || rest == "" || rest[0] != ' ' && rest[0] != '{' {
			continue
		}
		fields := strings.Fields(line)
		v, err := strconv.ParseFloat(fields[len(fields)-1], 64)
		if err != nil {
			return 0, err
		}
		sum, found = sum+v, true
	}
	if !found {
		return 0, fmt.Errorf("no metric %s", name)
	}
	return sum, nil
}
