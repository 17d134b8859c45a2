// pytree-export 1
// {"inputs":[{"name":"[0]['layers'][0]['bias']","dtype":"f32","shape":[3]},{"name":"[0]['layers'][0]['weight']","dtype":"f32","shape":[2,3]},{"name":"[0]['layers'][1]['bias']","dtype":"f32","shape":[2]},{"name":"[0]['layers'][1]['weight']","dtype":"f32","shape":[3,2]},{"name":"[1]","dtype":"f32","shape":[4,2]}],"outputs":[{"name":"[0]","dtype":"f32","shape":[4,2]},{"name":"[1]","dtype":"f32","shape":[]}],"stablehlo":"1.9.0"}
module @jit_forward attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<3xf32>, %arg1: tensor<2x3xf32>, %arg2: tensor<2xf32>, %arg3: tensor<3x2xf32>, %arg4: tensor<4x2xf32>) -> (tensor<4x2xf32>, tensor<f32>) {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %cst_0 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %0 = stablehlo.dot_general %arg4, %arg1, contracting_dims = [1] x [0] : (tensor<4x2xf32>, tensor<2x3xf32>) -> tensor<4x3xf32>
    %1 = stablehlo.broadcast_in_dim %arg0, dims = [1] : (tensor<3xf32>) -> tensor<1x3xf32>
    %2 = stablehlo.broadcast_in_dim %1, dims = [0, 1] : (tensor<1x3xf32>) -> tensor<4x3xf32>
    %3 = stablehlo.add %0, %2 : tensor<4x3xf32>
    %4 = stablehlo.tanh %3 : tensor<4x3xf32>
    %5 = stablehlo.dot_general %4, %arg3, contracting_dims = [1] x [0] : (tensor<4x3xf32>, tensor<3x2xf32>) -> tensor<4x2xf32>
    %6 = stablehlo.broadcast_in_dim %arg2, dims = [1] : (tensor<2xf32>) -> tensor<1x2xf32>
    %7 = stablehlo.broadcast_in_dim %6, dims = [0, 1] : (tensor<1x2xf32>) -> tensor<4x2xf32>
    %8 = stablehlo.add %5, %7 : tensor<4x2xf32>
    %9 = stablehlo.reduce(%8 init: %cst_0) applies stablehlo.maximum across dimensions = [1] : (tensor<4x2xf32>, tensor<f32>) -> tensor<4xf32>
    %10 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %11 = stablehlo.maximum %10, %9 : tensor<4xf32>
    %12 = stablehlo.broadcast_in_dim %11, dims = [0] : (tensor<4xf32>) -> tensor<4x1xf32>
    %13 = stablehlo.broadcast_in_dim %12, dims = [0, 1] : (tensor<4x1xf32>) -> tensor<4x2xf32>
    %14 = stablehlo.subtract %8, %13 : tensor<4x2xf32>
    %15 = stablehlo.exponential %14 : tensor<4x2xf32>
    %16 = stablehlo.reduce(%15 init: %cst) applies stablehlo.add across dimensions = [1] : (tensor<4x2xf32>, tensor<f32>) -> tensor<4xf32>
    %17 = stablehlo.broadcast_in_dim %16, dims = [0] : (tensor<4xf32>) -> tensor<4x1xf32>
    %18 = stablehlo.broadcast_in_dim %17, dims = [0, 1] : (tensor<4x1xf32>) -> tensor<4x2xf32>
    %19 = stablehlo.divide %15, %18 : tensor<4x2xf32>
    %20 = stablehlo.reduce(%4 init: %cst) applies stablehlo.add across dimensions = [0, 1] : (tensor<4x3xf32>, tensor<f32>) -> tensor<f32>
    return %19, %20 : tensor<4x2xf32>, tensor<f32>
  }
}
