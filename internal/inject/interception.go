package inject

import (
	"cmp"
	"fairway/internal/inject/values"
	"strconv"

	corev1 "k8s.io/api/core/v1"
)

// interception returns the init container that makes the kernel redirect the pod's connections to Envoy. It needs root and the capability
// to change packet rules, only in the pod's own network. It ends before the user's containers after it start.
func (s surroundings) interception() corev1.Container {
	c, mesh := s.wish.capture, s.mesh
	user, group := s.proxyIDs()
	args := []string{
		"istio-iptables",
		"-p", strconv.Itoa(int(cmp.Or(mesh.GetProxyListenPort(), 15001))),
		"-z", strconv.Itoa(int(cmp.Or(mesh.GetProxyInboundListenPort(), 15006))),
		"-u", strconv.FormatInt(user, 10),
		"-m", s.wish.mode,
		"-i", c.networks,
		"-x", c.networksExclude,
		"-b", c.inPorts,
		"-d", joined(strconv.Itoa(metricsPort), strconv.Itoa(readyPort), optional(s.wish.statusPort), c.inPortsExclude),
	}
	for _, more := range [...][2]string{
		{"-q", c.outPorts}, {"-o", c.outPortsExclude}, {"-c", c.interfacesExclude}, {"-k", c.virtualInterfaces},
	} {
		if more[1] != "" {
			args = append(args, more[0], more[1])
		}
	}
	if group != user {
		args = append(args, "-g", strconv.FormatInt(group, 10))
	}
	init := s.values.Global.ProxyInit
	resources := init.Resources
	if len(resources.Requests)+len(resources.Limits) == 0 {
		resources = corev1.ResourceRequirements{Requests: values.Quantities("10m", "16Mi"), Limits: values.Quantities("2", "256Mi")}
	}
	image := s.wish.image
	if init.Image != "" {
		image = s.values.Image(init.Image, s.values.Global.Variant)
	}
	return corev1.Container{
		Name:            initContainer,
		Image:           image,
		ImagePullPolicy: corev1.PullPolicy(s.values.Global.ImagePullPolicy),
		Args:            args,
		Env:             s.metadata(nil),
		Resources:       resources,
		SecurityContext: &corev1.SecurityContext{
			AllowPrivilegeEscalation: new(false),
			Privileged:               new(false),
			ReadOnlyRootFilesystem:   new(true),
			RunAsNonRoot:             new(false),
			RunAsUser:                new(int64(0)),
			RunAsGroup:               new(int64(0)),
			Capabilities: &corev1.Capabilities{
				Add:  []corev1.Capability{"NET_ADMIN", "NET_RAW"},
				Drop: []corev1.Capability{"ALL"},
			},
			SeccompProfile: s.values.Global.Proxy.SeccompProfile,
		},
	}
}

// proxyIDs returns the user and group that mark the proxy's own connections for the rules: those that the pod gives its proxy, else the
// template's. If the proxy runs as root the rules use only its group, because the application may be root too.
func (s surroundings) proxyIDs() (user, group int64) {
	user, group = proxyUID, proxyUID
	for _, list := range [][]corev1.Container{s.pod.Spec.Containers, s.pod.Spec.InitContainers} {
		for i := range list {
			said := list[i].SecurityContext
			if list[i].Name != ProxyContainer || said == nil {
				continue
			}
			if said.RunAsUser != nil && *said.RunAsUser != 0 {
				user = *said.RunAsUser
			}
			if said.RunAsGroup != nil {
				group = *said.RunAsGroup
			}
		}
	}
	return user, group
}

// optional formats a number; 0 becomes the empty text.
func optional(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}

// joined joins lists.
func joined(lists ...string) string {
	out := ""
	for _, l := range lists {
		if l != "" && out != "" {
			out += ","
		}
		out += l
	}
	return out
}
