package edit

// A strategic merge keeps the fields of both sides. API servers accept only one of some fields, such as the handlers of a probe.
// If the upper side sets one of them, it replaces those of the lower side.

// Settle removes from the pod under what a merge with over would leave beside a field that excludes it: handlers of probes and hooks,
// sources of volumes, and seccomp profiles. over is not changed.
func Settle(under, over map[string]any) {
	under, over = Fields(under, "spec"), Fields(over, "spec")
	for _, kind := range ContainerLists() {
		at := Places(List(under, kind))
		for _, item := range List(over, kind) {
			upper, _ := item.(map[string]any)
			if i := at.At(Text(upper, "name")); i >= 0 {
				lower, _ := List(under, kind)[i].(map[string]any)
				settleContainer(lower, upper)
			}
		}
	}
	settleProfile(Fields(under, "securityContext"), Fields(over, "securityContext"))
	at := Places(List(under, "volumes"))
	for _, item := range List(over, "volumes") {
		upper, _ := item.(map[string]any)
		if i := at.At(Text(upper, "name")); i >= 0 && len(upper) > 1 {
			lower, _ := List(under, "volumes")[i].(map[string]any)
			for source := range lower {
				if _, same := upper[source]; !same && source != "name" {
					delete(lower, source)
				}
			}
		}
	}
}

func settleContainer(lower, upper map[string]any) {
	for probe := range ProbeKinds() {
		settleHandler(Fields(lower, probe), Fields(upper, probe))
	}
	for hook := range HookKinds() {
		settleHandler(Fields(lower, "lifecycle", hook), Fields(upper, "lifecycle", hook))
	}
	settleProfile(Fields(lower, "securityContext"), Fields(upper, "securityContext"))
}

// settleHandler removes the handlers of a probe or hook if another one is laid over it.
func settleHandler(lower, upper map[string]any) {
	ways := append(Handlers(), "exec", "sleep")
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
	if kind := Text(Fields(upper, "seccompProfile"), "type"); kind != "" && kind != "Localhost" {
		delete(Fields(lower, "seccompProfile"), "localhostProfile")
	}
}
