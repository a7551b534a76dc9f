// Command kube is etcd, the Kubernetes API server and its controller manager in one program, for the tests: kube NAME ARGS...
// It is a module of its own, so that the control plane's module never names what it is made of.
package main

import (
	"fmt"
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllers "k8s.io/kubernetes/cmd/kube-controller-manager/app"

	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
)

func main() {
	if len(os.Args) < 2 {
		refuse("")
	}
	os.Args = os.Args[1:]
	switch name := os.Args[0]; name {
	case "etcd":
		etcdmain.Main(os.Args)
	case "kube-apiserver":
		os.Exit(cli.Run(apiserver.NewAPIServerCommand()))
	case "kube-controller-manager":
		os.Exit(cli.Run(controllers.NewControllerManagerCommand()))
	default:
		refuse(name)
	}
}

func refuse(name string) {
	fmt.Fprintf(os.Stderr, "kube: no program %q: say etcd, kube-apiserver or kube-controller-manager\n", name)
	os.Exit(2)
}
