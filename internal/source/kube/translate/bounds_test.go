package translate_test

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"fairway/internal/source/budget"
)

// The first 256 ports of a Service and of a slice are read; how many there are is a problem.
func TestMostPorts(t *testing.T) {
	name := metav1.ObjectMeta{Namespace: "shop", Name: "web", Labels: map[string]string{discoveryv1.LabelServiceName: "web"}}
	service, slice := &corev1.Service{ObjectMeta: name}, &discoveryv1.EndpointSlice{ObjectMeta: name}
	for i := range int32(65535) {
		port, word := i+1, fmt.Sprint("http-", i+1)
		service.Spec.Ports = append(service.Spec.Ports, corev1.ServicePort{Name: word, Port: port})
		slice.Ports = append(slice.Ports, discoveryv1.EndpointPort{Name: &word, Port: &port})
	}
	slice.Endpoints = []discoveryv1.Endpoint{{Addresses: []string{"10.0.0.1"}}}
	row, _, problems := registry().Service(service)
	if n := len(row.Ports); n != budget.MaxPorts || row.Ports[n-1].Number != budget.MaxPorts {
		t.Errorf("%d ports, the last of them %v", n, row.Ports[n-1])
	}
	if len(problems) != 1 || !strings.Contains(problems[0].Message, "has 65535 ports; those after the first 256 are left out") {
		t.Errorf("the problems are %v", problems)
	}
	rows, problems := registry().Slice(slice)
	if n := len(rows.Endpoints[0].Ports.Pairs()); n != budget.MaxPorts || len(problems) != 1 {
		t.Errorf("an endpoint has %d ports, and the problems are %v", n, problems)
	}
	if len(service.Spec.Ports) != 65535 {
		t.Error("the object of the API server was changed")
	}
}
