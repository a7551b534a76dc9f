package settings

import (
	"math"
	"strconv"
	"time"

	meshconfig "istio.io/api/mesh/v1alpha1"

	"fairway/internal/agent/cpu"
	"fairway/internal/identity/safefile"
)

// parentMargin is how much longer than its drain an Envoy stays after its successor took over: if a parent ends before its last
// request, that request is cut off.
const parentMargin = 15 * time.Second

func resolveProcess(f Flags, env Environment, config *meshconfig.ProxyConfig) (Options, error) {
	o := Options{
		CustomConfig:      config.GetCustomConfigFile(),
		Envoy:             firstOf(f.Envoy, config.GetBinaryPath(), "envoy"),
		ConfigDir:         firstOf(f.ConfigPath, config.GetConfigPath()),
		LogLevel:          f.ProxyLogLevel,
		ComponentLogLevel: f.ComponentLogLevel,
		WatchEvery:        f.WatchInterval,
	}
	var err error
	if o.Concurrency, err = concurrency(f, env, config); err != nil {
		return o, err
	}
	if o.Environment, err = envoyVariables(env.Vars); err != nil {
		return o, err
	}
	if o.Restarts, err = resolveRestarts(f, config); err != nil {
		return o, err
	}
	if o.Shutdown, err = resolveShutdown(env, config); err != nil {
		return o, err
	}
	return o, readOverride(&o, env.Vars["ISTIO_BOOTSTRAP_OVERRIDE"])
}

// concurrency returns the flag's value, else ProxyConfig's, where 0 means one thread a core; else the container's limits, which the
// injector may have written down.
func concurrency(f Flags, env Environment, config *meshconfig.ProxyConfig) (int, error) {
	if f.Concurrency >= 0 {
		return f.Concurrency, nil
	}
	if c := config.GetConcurrency(); c != nil {
		return int(c.GetValue()), nil
	}
	if said := env.Vars["ISTIO_CPU_LIMIT"]; said != "" {
		n, err := strconv.Atoi(said)
		if err != nil || n < 1 {
			return 0, Usage("ISTIO_CPU_LIMIT: %q is not a number of processors", said)
		}
		return n, nil
	}
	if env.Machine == nil {
		return 0, nil
	}
	return cpu.Limit(env.Machine), nil
}

func resolveRestarts(f Flags, config *meshconfig.ProxyConfig) (Restarts, error) {
	r := Restarts{
		Hot: !f.NoHotRestart, Drain: config.GetDrainDuration().AsDuration(), ParentShutdown: f.ParentShutdownDuration,
		Longest: f.LongestRequest, DrainStrategy: f.DrainStrategy, LiveWithin: f.RestartTimeout,
	}
	if f.DrainDuration > 0 {
		r.Drain = f.DrainDuration
	}
	if r.ParentShutdown == 0 {
		r.ParentShutdown = max(r.Drain, f.LongestRequest) + parentMargin
	}
	if f.BaseID >= 0 {
		id := uint32(f.BaseID)
		r.BaseID = &id
	}
	switch {
	case f.RestartForever && f.RestartBudget >= 0:
		return r, Usage("--restartForever, --restartBudget: the first makes the second useless; leave one out")
	case f.RestartForever:
		r.Budget = math.MaxInt
	case f.RestartBudget > 0:
		r.Budget = f.RestartBudget
	case f.RestartBudget == 0:
		r.Budget = -1
	}
	if s := f.DrainStrategy; s != "" && s != "immediate" && s != "gradual" {
		return r, Usage("--drainStrategy: %q is neither immediate nor gradual", s)
	}
	return r, nil
}

// resolveShutdown reads the options that Istio's agent has for the same (istio.io, reference of pilot-agent's environment variables).
func resolveShutdown(env Environment, config *meshconfig.ProxyConfig) (Shutdown, error) {
	s := Shutdown{Minimum: 5 * time.Second, Limit: config.GetTerminationDrainDuration().AsDuration()}
	if said := env.Vars["MINIMUM_DRAIN_DURATION"]; said != "" {
		d, err := time.ParseDuration(said)
		if err != nil || d < 0 {
			return s, Usage("MINIMUM_DRAIN_DURATION: %q is not a duration, as 5s", said)
		}
		s.Minimum = d
	}
	if said := env.Vars["TERMINATION_DRAIN_DURATION_SECONDS"]; said != "" {
		seconds, err := strconv.Atoi(said)
		if err != nil || seconds < 0 {
			return s, Usage("TERMINATION_DRAIN_DURATION_SECONDS: %q is not a number of seconds", said)
		}
		s.Limit = time.Duration(seconds) * time.Second
	}
	if said := env.Vars["EXIT_ON_ZERO_ACTIVE_CONNECTIONS"]; said != "" {
		zero, err := strconv.ParseBool(said)
		if err != nil {
			return s, Usage("EXIT_ON_ZERO_ACTIVE_CONNECTIONS: %q is neither true nor false", said)
		}
		s.ExitOnZero = &zero
	}
	return s, nil
}

// readOverride loads the file that ISTIO_BOOTSTRAP_OVERRIDE names.
func readOverride(o *Options, path string) error {
	if path == "" {
		return nil
	}
	content, err := safefile.Read(path, longestFile)
	if err != nil {
		return Usage("ISTIO_BOOTSTRAP_OVERRIDE: %w", err)
	}
	o.Override = string(content)
	return nil
}
