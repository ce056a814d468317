#include <thrust/device_vector.h>
#include <thrust/host_vector.h>
#include <thrust/sort.h>
#include <thrust/scan.h>
#include <thrust/reduce.h>
#include <thrust/transform.h>
#include <cub/cub.cuh>
#include <algorithm>
#include <numeric>
#include <cstdio>
#include <vector>
int main(){ int n=20000,bad=0; std::vector<int> h(n); unsigned s=1; for(auto&x:h){s=s*1664525u+1013904223u; x=int(s>>8)-(1<<22);}
 thrust::device_vector<int> d(h.begin(),h.end()); std::vector<int> e=h,r(n);
 printf("sum %d\n", thrust::reduce(d.begin(),d.end())==std::accumulate(e.begin(),e.end(),0)); 
 thrust::inclusive_scan(d.begin(),d.end(),d.begin()); std::partial_sum(e.begin(),e.end(),e.begin()); thrust::copy(d.begin(),d.end(),r.begin()); bad+=r!=e; printf("scan %d\n",r==e);
 d=thrust::device_vector<int>(h.begin(),h.end()); thrust::sort(d.begin(),d.end()); e=h; std::sort(e.begin(),e.end()); thrust::copy(d.begin(),d.end(),r.begin()); bad+=r!=e; printf("sort %d\n",r==e);
 thrust::device_vector<double> q(n); thrust::transform(d.begin(),d.end(),q.begin(),[]__device__(int x){return x*0.5;}); double t=thrust::reduce(q.begin(),q.end()); double u=0; for(int x:h)u+=x*0.5; printf("transform %d\n",t==u); bad+=t!=u;
 // cub
 int*in,*out; void*tmp=nullptr; size_t b=0; cudaMalloc(&in,4*n);cudaMalloc(&out,4*n); cudaMemcpy(in,h.data(),4*n,cudaMemcpyHostToDevice);
 cub::DeviceRadixSort::SortKeysDescending(tmp,b,in,out,n); cudaMalloc(&tmp,b); cub::DeviceRadixSort::SortKeysDescending(tmp,b,in,out,n); cudaMemcpy(r.data(),out,4*n,cudaMemcpyDeviceToHost); std::reverse(e.begin(),e.end()); bad+=r!=e; printf("cub sort %d %s\n",r==e,cudaGetErrorString(cudaGetLastError()));
 cudaFree(tmp);tmp=nullptr;b=0; cub::DeviceReduce::Max(tmp,b,in,out,n); cudaMalloc(&tmp,b); cub::DeviceReduce::Max(tmp,b,in,out,n); int m; cudaMemcpy(&m,out,4,cudaMemcpyDeviceToHost); printf("cub max %d\n",m==e[0]); bad+=m!=e[0];
 cudaFree(tmp);tmp=nullptr;b=0; cub::DeviceScan::ExclusiveSum(tmp,b,in,out,n); cudaMalloc(&tmp,b); cub::DeviceScan::ExclusiveSum(tmp,b,in,out,n); cudaMemcpy(r.data(),out,4*n,cudaMemcpyDeviceToHost); std::vector<int> x(n); std::exclusive_scan(h.begin(),h.end(),x.begin(),0); printf("cub scan %d\n",r==x); bad+=r!=x;
 printf("bad %d\n",bad); return bad; }
