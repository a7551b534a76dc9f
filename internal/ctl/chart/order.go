package chart

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// separator begins a document of YAML. Text may follow it on its line.
var separator = regexp.MustCompile(`(?:^|\s*\n)---[ \t]*`)

// Split returns the documents of a text that are not empty.
func Split(text string) (out []string) {
	for _, document := range separator.Split(strings.TrimSpace(text), -1) {
		if document = strings.TrimSpace(document); document != "" {
			out = append(out, document)
		}
	}
	return out
}

// order is the order in which Helm creates objects, by kind. Other kinds come last.
var order = []string{
	"PriorityClass", "Namespace", "NetworkPolicy", "ResourceQuota", "LimitRange", "PodSecurityPolicy", "PodDisruptionBudget",
	"ServiceAccount", "Secret", "SecretList", "ConfigMap", "StorageClass", "PersistentVolume", "PersistentVolumeClaim",
	"CustomResourceDefinition", "ClusterRole", "ClusterRoleList", "ClusterRoleBinding", "ClusterRoleBindingList", "Role", "RoleList",
	"RoleBinding", "RoleBindingList", "Service", "DaemonSet", "Pod", "ReplicationController", "ReplicaSet", "Deployment",
	"HorizontalPodAutoscaler", "StatefulSet", "Job", "CronJob", "IngressClass", "Ingress", "APIService",
	"MutatingWebhookConfiguration", "ValidatingWebhookConfiguration",
}

// Manifest is one object of a filled template.
type Manifest struct {
	File, Text string
	kind       string
}

// hook is the annotation of objects that Helm makes at other times.
const hook = "helm.sh/hook"

// Manifests returns the objects of files, in the order in which they are to be made.
func Manifests(files map[string]string) ([]Manifest, error) {
	var out []Manifest
	for _, name := range slices.Sorted(maps.Keys(files)) {
		for _, text := range Split(files[name]) {
			var head struct {
				Kind     string `json:"kind"`
				Metadata struct {
					Annotations map[string]string `json:"annotations"`
				} `json:"metadata"`
			}
			if err := yaml.Unmarshal([]byte(text), &head); err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			if head.Metadata.Annotations[hook] != "" {
				return nil, fmt.Errorf("%s: the chart has hooks, which pilotctl does not run", name)
			}
			out = append(out, Manifest{name, text, head.Kind})
		}
	}
	slices.SortStableFunc(out, func(a, b Manifest) int {
		first, second := rank(a.kind), rank(b.kind)
		if first == len(order) && second == len(order) {
			return strings.Compare(a.kind, b.kind)
		}
		return first - second
	})
	return out, nil
}

func rank(kind string) int {
	if i := slices.Index(order, kind); i >= 0 {
		return i
	}
	return len(order)
}
