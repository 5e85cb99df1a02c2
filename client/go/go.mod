module idempotencyd.dev/go

go 1.19

require (
	google.golang.org/grpc v1.67.1
	google.golang.org/protobuf v1.34.2
)
