package kubelet

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"fairway/test/platform/kube/cluster"
)

// path is where images have their programs, and others look for theirs.
const path = "/image:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// environment is a container's, with each name once.
func (p *Pod) environment(ctx context.Context, c *corev1.Container) (map[string]string, error) {
	out := map[string]string{
		"PATH": path, "HOSTNAME": p.name, "HOME": "/",
		"KUBERNETES_SERVICE_HOST": cluster.ServiceIP, "KUBERNETES_SERVICE_PORT": "443",
	}
	for _, from := range c.EnvFrom {
		data, err := p.group(ctx, from)
		if err != nil {
			return nil, err
		}
		for name, value := range data {
			out[from.Prefix+name] = value
		}
	}
	for _, v := range c.Env {
		value := expand(v.Value, out)
		if v.ValueFrom != nil {
			var err error
			if r := v.ValueFrom.ResourceFieldRef; r != nil {
				value, err = limit(c, r.Resource)
			} else {
				value, err = p.value(ctx, *v.ValueFrom)
			}
			if err != nil {
				return nil, fmt.Errorf("%s: %w", v.Name, err)
			}
		}
		out[v.Name] = value
	}
	return out, nil
}

// limit is one of a container's limits, as resourceFieldRef gives it: memory in bytes, processors rounded up.
func limit(c *corev1.Container, resource string) (string, error) {
	name, is := strings.CutPrefix(resource, "limits.")
	q, has := c.Resources.Limits[corev1.ResourceName(name)]
	if !is || !has {
		return "", fmt.Errorf("the container has no %s", resource)
	}
	return strconv.FormatInt(q.Value(), 10), nil
}

// group is all of a ConfigMap or a Secret.
func (p *Pod) group(ctx context.Context, from corev1.EnvFromSource) (map[string]string, error) {
	if m := from.ConfigMapRef; m != nil {
		data, err := p.data(ctx, "configmaps", m.Name, m.Optional)
		return words(data), err
	}
	data, err := p.data(ctx, "secrets", from.SecretRef.Name, from.SecretRef.Optional)
	return words(data), err
}

func words(data map[string][]byte) map[string]string {
	out := map[string]string{}
	for k, v := range data {
		out[k] = string(v)
	}
	return out
}

// value is what a variable is taken from.
func (p *Pod) value(ctx context.Context, from corev1.EnvVarSource) (string, error) {
	var data map[string][]byte
	var key string
	var optional *bool
	var err error
	switch {
	case from.FieldRef != nil:
		return p.field(from.FieldRef.FieldPath)
	case from.SecretKeyRef != nil:
		key, optional = from.SecretKeyRef.Key, from.SecretKeyRef.Optional
		data, err = p.data(ctx, "secrets", from.SecretKeyRef.Name, optional)
	case from.ConfigMapKeyRef != nil:
		key, optional = from.ConfigMapKeyRef.Key, from.ConfigMapKeyRef.Optional
		data, err = p.data(ctx, "configmaps", from.ConfigMapKeyRef.Name, optional)
	default:
		return "", fmt.Errorf("a source of a value that this kubelet does not have: %v", from)
	}
	value, ok := data[key]
	if err == nil && !ok && (optional == nil || !*optional) {
		err = fmt.Errorf("it has no key %s", key)
	}
	return string(value), err
}

// field is one of the pod's, as the downward API gives it.
func (p *Pod) field(of string) (string, error) {
	pod := p.latest()
	if key, ok := subscript(of, "metadata.labels"); ok {
		return pod.Labels[key], nil
	}
	if key, ok := subscript(of, "metadata.annotations"); ok {
		return pod.Annotations[key], nil
	}
	value, ok := map[string]string{
		"metadata.name": pod.Name, "metadata.namespace": pod.Namespace, "metadata.uid": string(pod.UID),
		"spec.nodeName": Node, "spec.serviceAccountName": pod.Spec.ServiceAccountName,
		"status.podIP": p.ip, "status.podIPs": p.ip, "status.hostIP": HostIP, "status.hostIPs": HostIP,
		"metadata.labels": lines(pod.Labels), "metadata.annotations": lines(pod.Annotations),
	}[of]
	if !ok {
		return "", fmt.Errorf("no field %s", of)
	}
	return value, nil
}

func subscript(of, name string) (key string, ok bool) {
	if of, ok = strings.CutPrefix(of, name+"['"); !ok {
		return "", false
	}
	return strings.CutSuffix(of, "']")
}

func lines(all map[string]string) string {
	out := make([]string, 0, len(all))
	for _, k := range slices.Sorted(maps.Keys(all)) {
		out = append(out, fmt.Sprintf("%s=%q", k, all[k]))
	}
	return strings.Join(out, "\n")
}

// expand puts variables in the place of $(NAME); $$ is a dollar, and a name that is not there stays as it is written.
func expand(text string, vars map[string]string) string {
	var out strings.Builder
	for text != "" {
		before, after, found := strings.Cut(text, "$")
		out.WriteString(before)
		if !found {
			break
		}
		if rest, doubled := strings.CutPrefix(after, "$"); doubled {
			out.WriteByte('$')
			text = rest
			continue
		}
		name, rest, closed := strings.Cut(strings.TrimPrefix(after, "("), ")")
		value, known := vars[name]
		if !strings.HasPrefix(after, "(") || !closed || !known {
			out.WriteByte('$')
			text = after
			continue
		}
		out.WriteString(value)
		text = rest
	}
	return out.String()
}
