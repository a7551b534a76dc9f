package agent

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"

	"fairway/internal/envoy/bootstrap"
)

// Run writes the bootstrap, has Envoy validate it, starts Envoy and stays until it ends. When ctx ends, Envoy is stopped:
// SIGTERM, and SIGKILL after Options.Termination. What arrives on signals (nil is none) is passed on to Envoy.
//
// It returns nil when Envoy ended with code 0, *UsageError where the options cannot work, *ExitError with Envoy's code otherwise.
func Run(ctx context.Context, o Options, signals <-chan os.Signal) error {
	o, err := o.settled()
	if err != nil {
		return err
	}
	file, remove, err := prepare(o)
	if err != nil {
		return err
	}
	if err := validate(ctx, o, file); err != nil {
		return err // the file stays: the error names it
	}
	if err := portsFree(o.Bootstrap); err != nil {
		remove()
		return err
	}
	s := &supervisor{options: o, file: file}
	p, err := s.start()
	if err != nil {
		remove()
		return err
	}
	o.Log.Info("envoy started", "epoch", p.epoch, "pid", p.pid, "node", o.Bootstrap.Node.ID(),
		"discovery", o.Bootstrap.Discovery.String(), "admin", o.Bootstrap.Admin.String(), "bootstrap", file)
	err = s.wait(ctx, p, signals)
	forgetSharedMemory(o.BaseID)
	if err != nil {
		o.Log.Error("envoy ended", "epoch", p.epoch, "error", err, "bootstrap", file)
		return err
	}
	o.Log.Info("envoy ended", "epoch", p.epoch)
	remove()
	return nil
}

// prepare gives the bootstrap file, and how to remove what was written.
func prepare(o Options) (file string, remove func(), err error) {
	if o.CustomConfig != "" {
		if _, err := os.Stat(o.CustomConfig); err != nil {
			return "", nil, usage("custom bootstrap: %w", err)
		}
		return o.CustomConfig, func() {}, nil
	}
	message, err := bootstrap.Build(o.Bootstrap)
	if err != nil {
		return "", nil, &UsageError{err}
	}
	content, err := bootstrap.JSON(message)
	if err != nil {
		return "", nil, &UsageError{err}
	}
	return write(o.ConfigDir, "envoy-rev0.json", content)
}

// write puts content into dir under name, whole or not at all.
func write(dir, name string, content []byte) (path string, remove func(), err error) {
	_, missing := os.Stat(dir)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", nil, usage("make the folder for Envoy's configuration: %w; name a writable one with --configPath", err)
	}
	tmp, err := os.CreateTemp(dir, "."+name+"-")
	if err != nil {
		return "", nil, usage("write Envoy's configuration: %w; name a writable folder with --configPath", err)
	}
	defer os.Remove(tmp.Name()) // fails once renamed
	_, err = tmp.Write(content)
	if closed := tmp.Close(); err == nil {
		err = closed
	}
	path = filepath.Join(dir, name)
	if err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		return "", nil, fmt.Errorf("write Envoy's configuration: %w", err)
	}
	return path, func() {
		os.Remove(path)
		if missing != nil {
			os.Remove(dir) // stays where somebody else put something there
		}
	}, nil
}

// portsFree asks for every port that Envoy's own listeners will bind, so that a clash is said in the agent's words.
func portsFree(p bootstrap.Params) error {
	if err := portFree(p.Admin, "--adminPort"); err != nil || p.Prometheus.Port == 0 {
		return err
	}
	return portFree(p.Prometheus, "--prometheusPort")
}

func portFree(at bootstrap.HostPort, flag string) error {
	l, err := net.Listen("tcp", net.JoinHostPort(at.Host, strconv.Itoa(int(at.Port))))
	if err != nil {
		return usage("Envoy cannot listen on %s: %w; choose another port with %s", at, err, flag)
	}
	return l.Close()
}

// forgetSharedMemory removes what an Envoy that can be hot-restarted leaves behind; its name is the base id times ten.
func forgetSharedMemory(baseID *uint32) {
	if baseID != nil {
		os.Remove(fmt.Sprintf("/dev/shm/envoy_shared_memory_%d", uint64(*baseID)*10))
	}
}
