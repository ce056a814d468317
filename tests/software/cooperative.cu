#include <cooperative_groups.h>
#include <cstdio>
namespace cg=cooperative_groups;
__global__ void k(int*a,int n,int it){ auto g=cg::this_grid(); int i=g.thread_rank(); for(int r=0;r<it;r++){ int v=a[(r%2)*n+(i+1)%n]+1; a[((r+1)%2)*n+i]=v; g.sync(); } }
int main(){int n=256,it=11;int*a;cudaMallocManaged(&a,2*n*4);for(int i=0;i<n;i++)a[i]=i; void*args[]={&a,&n,&it}; printf("%d\n",cudaLaunchCooperativeKernel((void*)k,dim3(4),dim3(64),args)); printf("%d\n",cudaDeviceSynchronize()); int bad=0; for(int i=0;i<n;i++) bad+= a[(it%2)*n+i]!=((i+it)%n)+it; printf("bad %d\n",bad);return bad;}
