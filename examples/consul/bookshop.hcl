# The bookshop's instances, as Consul's agent registers them. Metadata are labels in the mesh, and `identity` is the service account that
# an instance with a sidecar proves to be: requests to it are sent over mutual TLS.
services {
  name = "productpage"
  id = "productpage-v1"
  address = "127.0.0.11"
  port = 9080
  meta = { app = "productpage", version = "v1", identity = "productpage" }
}
services {
  name = "reviews"
  id = "reviews-v1"
  address = "127.0.0.31"
  port = 9080
  meta = { app = "reviews", version = "v1" }
}
services {
  name = "reviews"
  id = "reviews-v2"
  address = "127.0.0.32"
  port = 9080
  meta = { app = "reviews", version = "v2", identity = "reviews" }
}
services {
  name = "reviews"
  id = "reviews-v3"
  address = "127.0.0.33"
  port = 9080
  meta = { app = "reviews", version = "v3" }
}
services {
  name = "ratings"
  id = "ratings-steady"
  address = "127.0.0.41"
  port = 9080
  meta = { app = "ratings", version = "steady" }
}
services {
  name = "ratings"
  id = "ratings-flaky"
  address = "127.0.0.42"
  port = 9080
  meta = { app = "ratings", version = "flaky" }
}
