package inject

// A strategic merge keeps the fields of both sides. API servers accept only one of some fields, such as the handlers of a probe.
// If the upper side sets one of them, it replaces those of the lower side.

// settle removes from a pod what a merge with another would leave beside a field that excludes it: handlers of probes and hooks, sources of
// volumes, and seccomp profiles.
func settle(under, over map[string]any) {
	under, over = fields(under, "spec"), fields(over, "spec")
	for _, kind := range containerLists() {
		at := places(list(under, kind))
		for _, item := range list(over, kind) {
			upper, _ := item.(map[string]any)
			if i := at.at(text(upper, "name")); i >= 0 {
				lower, _ := list(under, kind)[i].(map[string]any)
				settleContainer(lower, upper)
			}
		}
	}
	settleProfile(fields(under, "securityContext"), fields(over, "securityContext"))
	at := places(list(under, "volumes"))
	for _, item := range list(over, "volumes") {
		upper, _ := item.(map[string]any)
		if i := at.at(text(upper, "name")); i >= 0 && len(upper) > 1 {
			lower, _ := list(under, "volumes")[i].(map[string]any)
			for source := range lower {
				if _, same := upper[source]; !same && source != "name" {
					delete(lower, source)
				}
			}
		}
	}
}

func settleContainer(lower, upper map[string]any) {
	for probe := range probeKinds() {
		settleHandler(fields(lower, probe), fields(upper, probe))
	}
	for hook := range hookKinds() {
		settleHandler(fields(lower, "lifecycle", hook), fields(upper, "lifecycle", hook))
	}
	settleProfile(fields(lower, "securityContext"), fields(upper, "securityContext"))
}

// settleHandler removes the handlers of a probe or hook if another one is laid over it.
func settleHandler(lower, upper map[string]any) {
	ways := append(handlers(), "exec", "sleep")
	for _, name := range ways {
		if _, says := upper[name]; !says {
			continue
		}
		for _, other := range ways {
			if other != name {
				delete(lower, other)
			}
		}
	}
}

// settleProfile removes the file of a seccomp profile that is of another type.
func settleProfile(lower, upper map[string]any) {
	if kind := text(fields(upper, "seccompProfile"), "type"); kind != "" && kind != "Localhost" {
		delete(fields(lower, "seccompProfile"), "localhostProfile")
	}
}
