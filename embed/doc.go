// Package embed runs Fairway's control plane inside a program of your own, and puts services, instances and Istio's rules
// into it from code.
//
//	registry, err := embed.NewRegistry(embed.RegistryOptions{Name: "inventory"})
//	plane, err := embed.New(embed.Options{GRPCAddr: "127.0.0.1:15010", Registries: []*embed.Registry{registry}})
//	go plane.Run(ctx)
//	err = registry.PutInstance("shop", "reviews", embed.Instance{ID: "a", Addresses: []string{"10.0.0.1"}, Port: 8080})
//
// What is put is in force for connected proxies within milliseconds; nothing has to be waited for, and [ControlPlane.Settled]
// waits where a test wants to. What is wrong is refused as a whole with a [*Refused] that says what would be right, and
// what was there before stays. All methods may be called from any goroutine.
//
// The package is small so that it can stay as it is: fields and functions are added, none changes its meaning.
package embed
