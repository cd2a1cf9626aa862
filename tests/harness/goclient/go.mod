module example.invalid/goclient

go 1.21
