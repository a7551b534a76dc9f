// Program embedded runs a control plane of its own, and puts into it what it knows.
package main

import (
	"context"
	"fmt"
	"log"
	"os/signal"
	"syscall"

	"fairway/embed"
)

const rule = `
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: reviews, namespace: shop}
spec:
  hosts: [reviews]
  http: [{timeout: 2s, route: [{destination: {host: reviews}}]}]
`

func run(ctx context.Context) error {
	registry, err := embed.NewRegistry(embed.RegistryOptions{Name: "inventory", Protocol: "http"})
	if err != nil {
		return err
	}
	plane, err := embed.New(embed.Options{
		GRPCAddr: "127.0.0.1:0", HTTPAddr: "127.0.0.1:0", Registries: []*embed.Registry{registry}, ShutdownWindow: -1,
	})
	if err != nil {
		return err
	}
	// before Run: no proxy ever sees less
	if err := registry.PutInstance("shop", "reviews", embed.Instance{
		ID: "a", Addresses: []string{"10.0.0.1"}, Port: 8080, Labels: map[string]string{"version": "v1"},
	}); err != nil {
		return err
	}
	if err := registry.PutObject(rule); err != nil {
		return err
	}
	go func() {
		<-plane.Synced()
		fmt.Println("xDS at", plane.GRPCAddr(), "pages at", plane.HTTPAddr())
		for _, p := range plane.Problems() {
			fmt.Println(p)
		}
	}()
	return plane.Run(ctx)
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		log.Fatal(err)
	}
}
